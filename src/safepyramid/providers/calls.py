"""What of a prompt is no message: a raw text's mark, its template's arguments, its answer's form.

Imports Inspect.
"""

from collections.abc import Mapping
from typing import Any

from inspect_ai.model import ChatMessageUser, GenerateConfigArgs, ResponseSchema
from inspect_ai.util import JSONSchema

from safepyramid.guards.base import Prompt
from safepyramid.providers.routes import RAW


def raw_message(prompt: Prompt) -> ChatMessageUser:
    """A raw prompt as the one message that a completions provider takes, marked as raw."""
    (message,) = prompt.messages
    return ChatMessageUser(content=message.text, metadata={RAW: True})


def call_settings(prompt: Prompt, extra_body: Mapping[str, Any] | None) -> GenerateConfigArgs:
    """The generation settings that belong to one prompt alone.

    Args:
        prompt: A guard's prompt.
        extra_body: The run's own further keys of a request, which these settings keep.

    Returns:
        Empty for a prompt of messages alone.
    """
    settings = GenerateConfigArgs()
    if prompt.template_args:
        arguments = {"chat_template_kwargs": dict(prompt.template_args)}
        settings["extra_body"] = {**(extra_body or {}), **arguments}
    if prompt.schema is not None:
        form = JSONSchema.model_validate(dict(prompt.schema))
        settings["response_schema"] = ResponseSchema(name="answer", json_schema=form, strict=True)
    return settings
