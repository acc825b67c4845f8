"""Which providers take which kind of prompt, and what servers' words mean. Needs no Inspect."""

import math
import re
from typing import Any

from safepyramid.errors import RunError

RAW_ONLY = frozenset({"completions", "openai-api-completions", "vllm-completions"})
"""Providers that send one text as it is, to `/v1/completions`."""
BOTH = frozenset({"local", "mockllm"})
"""Providers that send a prompt as its kind demands."""
OWN_RETRIES = frozenset(
    {
        *("openai", "openai-api", "openai-api-completions", "completions", "anthropic", "groq"),
        *("openrouter", "deepseek", "perplexity", "moonshot", "cloudflare", "meta"),
        "hf-inference-providers",
    }
)
"""Providers whose client tries a failed call again by itself unless it is told not to."""
DEFAULT_MAX_TOKENS = 2048
"""Output limit of a raw prompt. The endpoint's own default is 16 tokens, Inspect's is 1: either
cuts any answer."""
RAW = "raw"
"""Key in a message's metadata: the text is the whole prompt, no chat template may touch it."""

_STOPS = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "model_length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
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


class MissingKey(RunError):
    """A server's key is in none of the environment variables where it is looked for."""


def client_args(model: str) -> dict[str, int]:
    """The arguments that keep a provider's client from retries of its own, which nobody counts."""
    return {"max_retries": 0} if model.partition("/")[0] in OWN_RETRIES else {}


def _served_name(provider: str, name: str) -> str:
    """A model's name as its server knows it, with its organisation."""
    return name.partition("/")[2] if provider == "openai-api" else name


def stop_reason(finish: Any) -> str:
    """A server's finish reason, by Inspect's name for it.

    Any other word is kept as it is: a reply that was aborted has not ended by itself. Null, which
    says nothing, and NaN, which tables make of it, are `unknown`.

    >>> [stop_reason(word) for word in ("eos_token", "length", "abort", None)]
    ['stop', 'max_tokens', 'abort', 'unknown']
    """
    if finish is None or finish == "" or (isinstance(finish, float) and math.isnan(finish)):
        return "unknown"
    return _STOPS.get(finish, finish) if isinstance(finish, str) else str(finish)


def is_too_long(error: str) -> bool:
    """Whether a server's error says that the prompt does not fit the model's context."""
    return _TOO_LONG.search(error) is not None
