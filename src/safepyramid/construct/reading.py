"""Reading replies strictly: one JSON value of the asked form, or a reason why not."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from safepyramid.answers.refusals import is_refusal
from safepyramid.answers.text import trimmed, unfenced, visible

MAX_FAULTS = 8
"""So many faults a correction names; the others are counted."""

Form = TypeVar("Form", bound=BaseModel)


class Malformed(Exception):
    """A reply that cannot be used at all; the message tells its author why."""


class Refused(Exception):
    """A reply that declines in words: asking for another form would be paid for in vain."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply holds: the parts that can be used, and why the others cannot."""

    output: dict[str, Any]
    """Plain JSON, as it is kept in records."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Part (a rule's key, say) -> what is wrong with it, in words that name the part."""

    def complaint(self) -> str:
        """The faults as lines for whoever wrote the reply."""
        lines = [f"- {fault}" for fault in self.faults.values()]
        more = len(lines) - MAX_FAULTS
        return "\n".join([*lines[:MAX_FAULTS], *([f"- and {more} more"] if more > 0 else [])])


Reader = Callable[[str], Reading]
"""Reads a reply's text; raises Malformed or Refused."""


def read_form(text: str, form: type[Form]) -> Form:
    """Read a reply that must be one JSON object of a form, a code fence or thinking aside.

    Raises:
        Refused: The reply declines in words.
        Malformed: It is no JSON, holds a key twice, a number that JSON does not have or half a
            character, or does not fit the form.
    """
    shown = unfenced(visible(text))
    try:
        value = json.loads(
            shown, object_pairs_hook=_unique, parse_constant=_no_constant, strict=False
        )
        if "\\u" in shown:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("it holds half of a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        if is_refusal(trimmed(shown)):
            raise Refused("declined in words") from None
        raise Malformed(f"it is not one JSON object: {error}") from None
    try:
        return form.model_validate(value)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
            for fault in error.errors()
        ]
        more = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
        raise Malformed(f"it has another form: {'; '.join(faults[:MAX_FAULTS])}{more}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        doubled = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{doubled!r} stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
