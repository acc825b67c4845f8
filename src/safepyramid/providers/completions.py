"""`completions/NAME`: raw prompts to the `/v1/completions` of any OpenAI-compatible server.

Inspect's own provider for this endpoint does the work. Added here: no key is asked for on the
machine itself, a prompt that does not fit the context is a named stop reason instead of an
error, and log-probabilities are also read in the form of llama.cpp. Imports Inspect.
"""

import os
from typing import Any
from urllib.parse import urlsplit

from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    Logprob,
    Logprobs,
    ModelCall,
    ModelOutput,
    TopLogprob,
)
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
from inspect_ai.model._providers.openai_compatible_completions import (
    OpenAICompatibleCompletionsAPI,
    generate_raw_completions,
    resolve_completions_prompt,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from openai import APIStatusError, BadRequestError

from safepyramid.errors import RunError
from safepyramid.providers.routes import DEFAULT_MAX_TOKENS, MissingKey, is_too_long

KEYS = ("COMPLETIONS_API_KEY", "SAFEPYRAMID_API_KEY")
"""Environment variables that may hold the server's key; the first that is set counts."""

Generated = ModelOutput | tuple[ModelOutput | Exception, ModelCall]


class CompletionsAPI(OpenAICompatibleCompletionsAPI):
    """A server that completes raw prompts."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008
        **model_args: Any,
    ) -> None:
        base_url = base_url or os.environ.get("COMPLETIONS_BASE_URL")
        if not base_url:
            raise RunError(
                f"completions/{model_name} needs the server's address: give --model-base-url, "
                "for instance http://127.0.0.1:8000/v1"
            )
        super().__init__(
            model_name=model_name,
            base_url=base_url,
            api_key=api_key or _key(base_url),
            config=config,
            service="completions",
            **model_args,
        )

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> Generated:
        """Complete the text of the one user message."""
        return await complete(self, input, config)


def _key(base_url: str) -> str:
    key = next((os.environ[name] for name in KEYS if os.environ.get(name)), None)
    if key is not None:
        return key
    if is_loopback(base_url):
        return "none"
    raise MissingKey(
        f"{base_url} needs a key: set {' or '.join(KEYS)} (any value if it takes none)"
    )


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


async def complete(
    api: OpenAICompatibleAPI, input: list[ChatMessage], config: GenerateConfig
) -> Generated:
    """Send the one user message's text to a server's completions endpoint, as it is."""
    prompt = resolve_completions_prompt(input, api.service)
    if config.max_tokens is None:
        config = config.model_copy(update={"max_tokens": DEFAULT_MAX_TOKENS})
    try:
        generated = await generate_raw_completions(api, prompt, config)
    except BadRequestError as error:
        if not is_too_long(str(error)):
            raise
        return too_long(api, error)
    if isinstance(generated, tuple) and isinstance(generated[0], ModelOutput):
        _add_logprobs(generated[0], generated[1])
    return generated


def too_long(api: OpenAICompatibleAPI, error: APIStatusError) -> ModelOutput:
    """The output that stands for a prompt that does not fit the model's context."""
    return ModelOutput.from_content(
        api.service_model_name(), str(error), stop_reason="model_length"
    )


def _add_logprobs(output: ModelOutput, call: ModelCall) -> None:
    """Read llama.cpp's form: a list of tokens, each with its alternatives, as in a chat reply."""
    sent: Any = (call.response or {}).get("choices") or []
    for choice, raw in zip(output.choices, sent, strict=False):
        tokens = (raw.get("logprobs") or {}).get("content")
        if choice.logprobs is None and tokens:
            choice.logprobs = Logprobs(content=[_logprob(token) for token in tokens])


def _logprob(token: dict[str, Any]) -> Logprob:
    tops = [
        TopLogprob(token=top["token"], logprob=top["logprob"])
        for top in token.get("top_logprobs") or []
    ]
    return Logprob(token=token["token"], logprob=token["logprob"], top_logprobs=tops)
