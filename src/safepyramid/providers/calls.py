"""Between our plain values and Inspect's: a prompt on its way out, a reply on its way back.

Imports Inspect.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    GenerateConfigArgs,
    Model,
    ModelOutput,
    ModelUsage,
    ResponseSchema,
    get_model,
)
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.model._model import ModelGenerateError
from inspect_ai.util import JSONSchema

from safepyramid.errors import RunError
from safepyramid.guards.base import Message, Prompt
from safepyramid.providers.routes import RAW, client_args, stop_reason
from safepyramid.providers.watched import FINISH
from safepyramid.schema import Reply
from safepyramid.secrets import scrubbed

_TAKE_BOUNDARIES = frozenset({"anthropic", "openai"})
"""Providers that take explicit cache boundaries. Other servers join a message's parts each in
their own way, or take only one text."""


_MARKUP = re.compile(r"\[/?[a-z]+\]")


def open_model(
    name: str,
    base_url: str | None,
    args: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    memoize: bool = True,
) -> Model:
    """Inspect's model of this name.

    Args:
        name: As Inspect names it, `provider/name`.
        base_url: Of the server; None for the provider's own.
        args: The user's arguments for the provider; they win over ours.
        config: Generation settings, by Inspect's names.
        memoize: Whether to share it with others who open the same.

    Raises:
        RunError: It cannot be used: an unknown provider, a bad setting, a missing key or package.
    """
    try:
        return get_model(
            name,
            config=GenerateConfig(**(config or {})),
            base_url=base_url,
            memoize=memoize,
            **{**client_args(name), **args},
        )
    except Exception as error:
        # Inspect's messages for a missing key, package or provider are sentences for people
        # with markup and line breaks; one line is enough.
        text = _MARKUP.sub("", " ".join(str(getattr(error, "message", error)).split()))
        raise RunError(f"model {name!r} cannot be used: {text}") from error


def chat_messages(prompt: Prompt, model: str = "") -> list[ChatMessage]:
    """A prompt as Inspect's messages.

    Args:
        prompt: A guard's prompt.
        model: As Inspect names it, `provider/name`: where its provider takes them, a cache
            boundary stands after each part of a message but the last.
    """
    if prompt.raw:
        return [_raw_message(prompt)]
    boundaries = model.partition("/")[0] in _TAKE_BOUNDARIES
    return [_chat_message(message, boundaries) for message in prompt.messages]


_KINDS: dict[str, Callable[..., ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def _chat_message(message: Message, boundaries: bool) -> ChatMessage:
    kind = _KINDS[message.role]
    if isinstance(message.content, str) or not boundaries:
        return kind(content=message.text)
    last = len(message.content) - 1
    parts: list[Content] = [
        ContentText(text=part, cache_breakpoint=True if i < last else None)
        for i, part in enumerate(message.content)
    ]
    return kind(content=parts)


def _raw_message(prompt: Prompt) -> ChatMessageUser:
    """A raw prompt as the one message that a completions provider takes, marked as raw."""
    (message,) = prompt.messages
    return ChatMessageUser(content=message.text, metadata={RAW: True})


def call_settings(
    prompt: Prompt,
    extra_body: Mapping[str, Any] | None,
    prescribed: Mapping[str, Any] | None = None,
) -> GenerateConfigArgs:
    """The generation settings that belong to one prompt alone.

    Args:
        prompt: A guard's prompt.
        extra_body: The further keys of a request that are sent without these settings. They all
            stay; see `Prompt.further_keys`.
        prescribed: Those of the guard's makers, which `extra_body` may have replaced.

    Returns:
        Empty for a prompt of messages alone whose further keys are sent anyhow.
    """
    settings = GenerateConfigArgs()
    further = prompt.further_keys({**(prescribed or {}), **(extra_body or {})})
    if further != (extra_body or {}):
        settings["extra_body"] = further
    if prompt.schema is not None:
        form = JSONSchema.model_validate(dict(prompt.schema))
        settings["response_schema"] = ResponseSchema(name="answer", json_schema=form, strict=True)
    return settings


def cause_of(error: BaseException) -> BaseException:
    """The provider's own error, behind Inspect's: that retries ended, or with the whole request."""
    attempt = getattr(error, "last_attempt", None)
    error = (attempt.exception() if attempt is not None else None) or error
    return error.__cause__ or error if isinstance(error, ModelGenerateError) else error


def told(error: BaseException) -> str:
    """A failed call's cause in one line: the provider's own words, without keys."""
    cause = cause_of(error)
    return scrubbed(f"{type(cause).__name__}: {cause}", 300)


def run_extra_body(model: Model) -> Mapping[str, Any] | None:
    """The further keys of a request that the run under way sends to a model (`extra_body`)."""
    return active_generate_config().extra_body or model.config.extra_body


def input_of(usage: ModelUsage) -> tuple[int, int, int]:
    """All input tokens of a call; how many of them a cache gave; how many were written to one.

    Providers differ in whether cached tokens are part of the input; Inspect's `input_tokens` are
    without them.
    """
    cached = usage.input_tokens_cache_read or 0
    written = usage.input_tokens_cache_write or 0
    return usage.input_tokens + cached + written, cached, written


def _stop_reason(output: ModelOutput) -> str:
    """Why the first choice ended, in the server's own word where Inspect has none for it."""
    named = output.choices[0].stop_reason
    words = (output.metadata or {}).get(FINISH)
    return stop_reason(words[0]) if named == "unknown" and words else named


def reply_of(output: ModelOutput) -> Reply:
    """A model's output as a plain value; an output without a choice is an empty reply."""
    if not output.choices:
        return Reply("", stop_reason="unknown", error=output.error or "no choice in the output")
    choice, usage = output.choices[0], output.usage
    content = choice.message.content
    parts = [content] if isinstance(content, str) else content
    reasoning = [part.reasoning for part in parts if isinstance(part, ContentReasoning)]
    text = [
        part if isinstance(part, str) else part.text
        for part in parts
        if isinstance(part, str | ContentText)
    ]
    return Reply(
        text="".join(text),
        reasoning="\n".join(reasoning),
        stop_reason=_stop_reason(output),
        logprobs=tuple(
            {top.token: top.logprob for top in token.top_logprobs or []}
            | {token.token: token.logprob}
            for token in (choice.logprobs.content if choice.logprobs else [])
        ),
        output_tokens=usage.output_tokens if usage else None,
        reasoning_tokens=usage.reasoning_tokens if usage else None,
        error="" if choice.message.content else output.error or "",
        refused=any(isinstance(part, ContentText) and bool(part.refusal) for part in parts),
    )
