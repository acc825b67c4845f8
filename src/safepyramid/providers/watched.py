"""A model's calls on their way back, before Inspect logs them.

Two things must happen before a call's event is written, and no hook of Inspect's comes that early:
a key that a server repeats in an error is taken out, and the server's own word for why a reply
ended is kept, of which Inspect passes on only those that it knows. Imports Inspect.
"""

import functools
from collections.abc import Callable
from typing import Any

from inspect_ai.model import Model, ModelCall, ModelOutput

from safepyramid.secrets import make_scrub

FINISH = "finish_reasons"
"""Key in an output's metadata: the server's finish reasons, one a choice, where it gives any."""

Scrub = Callable[[str], str]


def watched(model: Model) -> Model:
    """The same model, with its calls watched from now on; a second time changes nothing."""
    call = model.api.generate
    if getattr(call, "is_watched", False):
        return model

    @functools.wraps(call)
    async def generate(*args: Any, **given: Any) -> Any:
        try:
            result = await call(*args, **given)
        except Exception as error:
            scrub_error(error, make_scrub())
            raise
        _clean(result)
        return result

    generate.is_watched = True  # type: ignore[attr-defined]
    # on the object alone: others may ask other models of its class
    model.api.generate = generate  # type: ignore[method-assign]
    return model


def _clean(result: Any) -> None:
    """Clean what a provider returned: an output or an error, alone or with the raw call."""
    output, call = result if isinstance(result, tuple) else (result, None)
    failed = isinstance(call, ModelCall) and bool(call.error)
    if failed:
        call.response = _scrubbed(call.response, make_scrub())
    if isinstance(output, Exception):
        scrub_error(output, make_scrub())
    elif isinstance(output, ModelOutput):
        if failed or output.error:  # its text may be the server's error too
            _scrub_output(output, make_scrub())
        if isinstance(call, ModelCall):
            _keep_finish(output, call)


def _scrub_output(output: ModelOutput, scrub: Scrub) -> None:
    output.error = _scrubbed(output.error, scrub)
    for choice in output.choices:
        if isinstance(choice.message.content, str):
            choice.message.content = scrub(choice.message.content)
    output.completion = scrub(output.completion)


def _keep_finish(output: ModelOutput, call: ModelCall) -> None:
    choices = (call.response or {}).get("choices")
    if isinstance(choices, list) and len(choices) == len(output.choices):
        reasons = [each.get("finish_reason") for each in choices if isinstance(each, dict)]
        if any(isinstance(reason, str) for reason in reasons):
            output.metadata = {**(output.metadata or {}), FINISH: reasons}


def scrub_error(error: BaseException, scrub: Scrub) -> None:
    """Take secrets out of an error's own texts, and out of those of the errors behind it."""
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        behind.args = tuple(_scrubbed(each, scrub) for each in behind.args)
        own = vars(behind)
        own.update({name: _scrubbed(value, scrub) for name, value in own.items()})
        behind = behind.__cause__ or behind.__context__


def _scrubbed(value: Any, scrub: Scrub) -> Any:
    """A JSON value with every text in it scrubbed; anything else as it is."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {
            scrub(key) if isinstance(key, str) else key: _scrubbed(each, scrub)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_scrubbed(each, scrub) for each in value]
    return value
