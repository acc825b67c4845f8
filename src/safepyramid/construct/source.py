"""The source form of a conversation with its policies, before numbers are given.

Authors, human or not, write this form; `assemble.py` turns it into cases. Rules have keys
instead of numbers, and each keeps its raw judgments, the quotes that decide them and a reason.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from safepyramid.errors import DataError
from safepyramid.schema import Level, RuleType, Turn

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Domain = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{3,}$")]
"""The first four characters begin the ids of its conversations."""


_REFERENCE = re.compile(r"\[\[([a-z0-9-]+)\]\]")
_ODD_MARK = re.compile(r"\[\[|\]\]|\[\s*overrides?\b", re.IGNORECASE)


def named_keys(text: str) -> tuple[str, ...]:
    """The keys that a text names as `[[key]]`, in order, without repeats."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text)))


def replace_keys(text: str, replacement: Callable[[str], str]) -> str:
    """A text with what stands for each `[[key]]` in its place."""
    return _REFERENCE.sub(lambda match: replacement(match[1]), text)


def odd_mark(text: str) -> str:
    """What of a text would pass into a policy as it is, and is not for an author to write.

    That is a double bracket around anything but a key, or a note of what a rule overrides: these
    are set where policies are rendered. Empty if there is none.
    """
    found = _ODD_MARK.search(_REFERENCE.sub("", text))
    return found[0] if found else ""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Quote(_Record):
    """The words of a conversation that decide a rule."""

    turn: int = Field(ge=1)
    """The exchange, from 1."""
    role: Literal["user", "chatbot"]
    text: Text
    """An exact substring of that message."""


class SourceRule(_Record):
    """A rule with its raw judgments: what is true of it before the other rules are heard."""

    key: Key
    type: RuleType
    text: Text
    """May name other rules as `[[key]]`."""
    modifies: tuple[Key, ...] = ()
    note: bool = False
    """Whether the policy shows `[overrides: Rule N]` behind the text."""
    broken: bool | None = None
    """Base rules: broken by its own text."""
    triggered: bool | None = None
    """Modifiers: whether every condition of the trigger holds."""
    met: bool | None = None
    """Modifiers: whether the standard they set is met; None when not triggered."""
    quotes: tuple[Quote, ...] = Field(min_length=1)
    reason: Text

    @model_validator(mode="after")
    def _judged_as_its_type_asks(self) -> Self:
        if self.type.is_modifier:
            if not self.modifies:
                raise ValueError(f"{self.key}: a {self.type} needs `modifies`")
            if self.triggered is None or self.broken is not None:
                raise ValueError(f"{self.key}: a {self.type} has `triggered`, not `broken`")
            if self.triggered != (self.met is not None):
                raise ValueError(f"{self.key}: `met` is given exactly when `triggered` is true")
        elif self.broken is None or self.triggered is not None or self.met is not None:
            raise ValueError(f"{self.key}: a {self.type} rule has `broken` only")
        elif self.modifies or self.note:
            raise ValueError(f"{self.key}: a {self.type} rule modifies nothing")
        return self


class SourcePolicy(_Record):
    """One level's policy."""

    inherits: Level | None = None
    """The level whose rules come first, unchanged."""
    instruction: Text
    framework: str = ""
    rules: tuple[SourceRule, ...]
    violated: frozenset[Key]
    """The net set as its author states it; checked against the resolver."""


class SourceConversation(_Record):
    """A conversation and the policies that judge it."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{3}-\d{3,}$")]
    domain: Domain
    scenario: Text
    title: Text
    turns: tuple[Turn, ...] = Field(min_length=2)
    policies: dict[Level, SourcePolicy]

    @model_validator(mode="before")
    @classmethod
    def _number_the_turns(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("turns"), list):
            return {**data, "turns": [_turn(i, entry) for i, entry in enumerate(data["turns"])]}
        return data

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.domain.startswith(self.id[:4]):
            raise ValueError(f"id {self.id!r} must begin like its domain {self.domain!r}")
        if len(self.turns) % 2:
            raise ValueError("turns must end with the chatbot")
        for level, policy in self.policies.items():
            if policy.inherits and not (
                policy.inherits in self.policies and policy.inherits < level
            ):
                raise ValueError(
                    f"{level}: inherits {policy.inherits}, which is no lower level here"
                )
        for level in self.policies:
            keys = [rule.key for rule in self.rules(level)]
            doubled = sorted({key for key in keys if keys.count(key) > 1})
            if doubled:
                raise ValueError(f"{level}: doubled keys {', '.join(doubled)}")
            named = {key for rule in self.rules(level) for key in rule.modifies}
            unknown = sorted((named | self.policies[level].violated) - set(keys))
            if unknown:
                raise ValueError(f"{level}: unknown keys {', '.join(unknown)}")
        return self

    def rules(self, level: Level) -> tuple[SourceRule, ...]:
        """All rules of a level, the inherited ones first."""
        policy = self.policies[level]
        inherited = self.rules(policy.inherits) if policy.inherits else ()
        return (*inherited, *policy.rules)


def _turn(index: int, entry: Any) -> Any:
    role = "chatbot" if index % 2 else "user"
    if isinstance(entry, dict) and set(entry) == {role} and isinstance(entry[role], str):
        return Turn(number=index // 2 + 1, role=role, text=entry[role].strip())  # type: ignore[arg-type]
    if isinstance(entry, Turn):
        return entry
    raise ValueError(f"turn {index // 2 + 1}: expected one `{role}: text`, got {str(entry)[:60]!r}")


def read_source(path: Path) -> SourceConversation:
    """Read one YAML source file; every fault is named in the one DataError it raises."""
    try:
        return SourceConversation.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    except yaml.YAMLError as error:
        raise DataError(
            f"{path.name}: not readable as YAML: {' '.join(str(error).split())}"
        ) from None
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise DataError(f"{path.name}: {faults}") from None
