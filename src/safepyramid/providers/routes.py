"""Which providers take which kind of prompt, and what their errors mean. Needs no Inspect."""

import re

from safepyramid.errors import RunError

RAW_ONLY = frozenset({"completions", "openai-api-completions", "vllm-completions"})
"""Providers that send one text as it is, to `/v1/completions`."""
BOTH = frozenset({"local", "mockllm"})
"""Providers that send a prompt as its kind demands."""
DEFAULT_MAX_TOKENS = 2048
"""Output limit of a raw prompt. The endpoint's own default is 16 tokens, Inspect's is 1: either
cuts any answer."""
RAW = "raw"
"""Key in a message's metadata: the text is the whole prompt, no chat template may touch it."""

_TOO_LONG = re.compile(
    r"exceed_context_size_error|context_length_exceeded|maximum context length"
    r"|exceeds the available context size|longer than the maximum model length"
    r"|prompt is too long|input length",
    re.IGNORECASE,
)


def require_route(model: str, *, raw: bool) -> None:
    """Refuse a model whose provider cannot send the guard's prompts.

    Args:
        model: As Inspect names it, `provider/name`.
        raw: Whether the prompts are raw texts, for a completions endpoint.

    Raises:
        RunError: The provider would wrap a raw text in a chat template, or could not send a chat.
    """
    provider, _, name = model.partition("/")
    if raw and provider not in RAW_ONLY | BOTH:
        raise RunError(
            f"this guard sends raw prompts, which {provider!r} would wrap in a chat template; "
            f"give --model completions/{_served_name(provider, name) or 'NAME'} with --model-base-url"
        )
    if not raw and provider in RAW_ONLY:
        raise RunError(
            f"this guard sends chat messages, and {provider!r} sends raw texts only; give a chat "
            f"provider, for instance --model openai-api/NAME/{name or 'MODEL'}"
        )


def _served_name(provider: str, name: str) -> str:
    """A model's name as its server knows it, with its organisation."""
    return name.partition("/")[2] if provider == "openai-api" else name


def is_too_long(error: str) -> bool:
    """Whether a server's error says that the prompt does not fit the model's context."""
    return _TOO_LONG.search(error) is not None
