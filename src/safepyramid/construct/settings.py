"""What a construction run is told: models by role, sizes, ranges. Read from YAML and options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from safepyramid.construct.assemble import EXCHANGES, SHAPE
from safepyramid.errors import DataError
from safepyramid.schema import Level
from safepyramid.secrets import has_secret, secret_in

MIN_QUORUM = 2


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Role(_Part):
    """A model and how it is called."""

    model: Annotated[str, Field(pattern=r"^[^\s/]+/\S+$")]
    """As Inspect names it: `provider/name`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Generation settings, by Inspect's names (temperature, reasoning_effort, max_tokens …)."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the provider. Keys belong in the environment."""
    base_url: str | None = None
    structured: bool = True
    """Send the JSON schema along, where the provider takes one."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, data: Any) -> Any:
        return {"model": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _no_secrets(self) -> Self:
        for part in ("args", "config"):
            if (place := secret_in(getattr(self, part))) is not None:
                raise ValueError(
                    f"{part}: {place!r} looks like a secret: keep it in the environment"
                )
        if self.base_url and (has_secret(self.base_url) or secret_in(self.base_url) is not None):
            raise ValueError("base_url holds a user, password or key: keep them in the environment")
        return self


class Models(_Part):
    """Who writes and who checks. The defaults are the paper's four models (section 3.4)."""

    conversation: Role = Role(model="grok/grok-4-1-fast-reasoning")
    l0: Role = Role(model="openai/gpt-5.4")
    l1: Role = Role(model="google/gemini-3.1-pro-preview")
    l2: Role = Role(model="anthropic/claude-opus-4-6")
    validators: tuple[Role, ...] = (
        Role(model="grok/grok-4-1-fast-reasoning"),
        Role(model="openai/gpt-5.4"),
        Role(model="google/gemini-3.1-pro-preview"),
        Role(model="anthropic/claude-opus-4-6"),
    )
    """The pool. Whoever wrote a policy does not check it."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """All of them, authors first; one may occur more than once."""
        return (self.conversation, self.l0, self.l1, self.l2, *self.validators)

    def author(self, level: Level) -> Role:
        """Who writes the policies of a level."""
        role: Role = getattr(self, level.lower())
        return role

    def checkers(self, level: Level) -> tuple[Role, ...]:
        """Who checks the policies of a level: the pool without their author."""
        author = self.author(level).model
        return tuple(role for role in self.validators if role.model != author)


Range = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
"""Least and most, both allowed."""


class Shape(_Part):
    """How much of what an author is asked for, and what a finished case must have."""

    decisive: Range = (0, 0)
    distractor: Range = (0, 0)
    exception: Range = (0, 0)
    conditional: Range = (0, 0)
    rules: Range
    """All rules of a finished case, inherited ones included."""
    violated: Range


def _shape(level: Level, **asked: tuple[int, int]) -> Shape:
    return Shape(**asked, rules=SHAPE[level]["rules"], violated=SHAPE[level]["violated"])


_NEVER_ASKED = {"L0": ("exception", "conditional"), "L1": ("decisive", "distractor")}


class Levels(_Part):
    """One shape a level. The defaults aim at the published statistics (paper, table 2)."""

    L0: Shape = _shape(Level.L0, decisive=(8, 9), distractor=(9, 9))
    L1: Shape = _shape(Level.L1, exception=(6, 7), conditional=(8, 9))
    """L1 inherits L0's rules: only the modifiers are asked for."""
    L2: Shape = _shape(
        Level.L2, decisive=(8, 9), distractor=(9, 9), exception=(7, 8), conditional=(10, 12)
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_up(cls, data: Any) -> Any:
        """A level that is given in part keeps the rest of its defaults."""
        if not isinstance(data, dict):
            return data
        default = {name: field.default.model_dump() for name, field in cls.model_fields.items()}
        return {
            name: {**default.get(name, {}), **given} if isinstance(given, dict) else given
            for name, given in data.items()
        }

    def of(self, level: Level) -> Shape:
        """The shape of a level."""
        shape: Shape = getattr(self, level.value)
        return shape


class Settings(_Part):
    """All that decides what a run makes. Two runs with equal settings and replies are equal."""

    seed: int = 0
    conversations: int = Field(default=100, ge=1, le=999_999)
    """For each domain."""
    domains: tuple[str, ...] = ()
    """Of the catalogue; all if empty."""
    scenarios: str | None = None
    """Folder of a catalogue of your own."""
    models: Models = Models()
    levels: Levels = Levels()
    exchanges: Range = EXCHANGES
    attempts: int = Field(default=2, ge=1, le=5)
    """How often a conversation or a level's policy is made before it is given up."""
    rules_per_call: int = Field(default=8, ge=1)
    """How many rules a validator judges in one call."""
    quorum: int | None = Field(default=None, ge=MIN_QUORUM)
    """Fewest readable votes on a rule; by default more than half of the pool, at least 2."""
    undecided: Literal["review", "drop"] = "review"
    """What becomes of a rule without a majority."""
    near_duplicate: float = Field(default=0.3, gt=0, le=1)
    """From this share of common five-word sequences (Jaccard) on, two conversations are alike."""
    style: str = ""
    """House style of the policies, in your own words."""
    prompts: str | None = None
    """Folder of templates that replace the bundled ones."""
    cache: bool = False
    """Use Inspect's cache of replies."""

    @model_validator(mode="after")
    def _can_work(self) -> Self:
        names = [role.model for role in self.models.validators]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"validators: {', '.join(doubled)} more than once: one model, one vote"
            )
        for level in Level:
            count, author = len(self.models.checkers(level)), self.models.author(level).model
            if count < max(MIN_QUORUM, self.quorum or 0):
                raise ValueError(
                    f"validators: {count} are left for {level}, which {author} writes; "
                    f"give at least {max(MIN_QUORUM, self.quorum or 0)} others"
                )
        for name, (low, high) in self._ranges():
            if low > high:
                raise ValueError(f"{name}: {low} to {high} is no range: put the smaller first")
        if not self.exchanges[0]:
            raise ValueError("exchanges: a conversation has at least 1")
        for name, kinds in _NEVER_ASKED.items():
            for kind in kinds:
                if getattr(getattr(self.levels, name), kind) != (0, 0):
                    raise ValueError(
                        f"levels.{name}.{kind}: {name} has none of its own: leave it 0"
                    )
        return self

    def _ranges(self) -> list[tuple[str, tuple[int, int]]]:
        shapes = [(level, self.levels.of(level)) for level in Level]
        return [
            ("exchanges", self.exchanges),
            *(
                (f"levels.{level}.{field}", getattr(shape, field))
                for level, shape in shapes
                for field in type(shape).model_fields
            ),
        ]

    def quorum_of(self, level: Level) -> int:
        """The fewest readable votes that decide about a rule of a level."""
        return self.quorum or max(MIN_QUORUM, len(self.models.checkers(level)) // 2 + 1)


def read_settings(path: str | Path | None, options: Mapping[str, Any] | None = None) -> Settings:
    """Read settings from a YAML file, with options on top.

    Args:
        path: The file; all defaults if not given. Paths in it are meant from where it lies.
        options: Dotted names to values, as `models.l0`; these win over the file.

    Raises:
        DataError: The file cannot be read, or a name or value is not allowed; all are named.
    """
    name = str(path or "settings")
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8")) if path else {}
    except OSError as error:
        raise DataError(f"cannot read settings {name!r}: {error.strerror}; give a file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{name}: not readable as YAML: {reason}") from None
    if not isinstance(data, dict | None):
        raise DataError(f"{name}: must hold names and values, such as `seed: 1`")
    data = data or {}
    for place in ("scenarios", "prompts"):
        if isinstance(data.get(place), str):
            data[place] = str((Path(path or ".").parent / data[place]).resolve())
    for dotted, value in (options or {}).items():
        _set(data, dotted.split("."), value, name)
    return settings_from(data, name)


def settings_from(data: Mapping[str, Any], name: str) -> Settings:
    """Check settings that came from a file called `name`; every fault in one DataError."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {_reason(fault)}".removeprefix(": ")
            for fault in error.errors()
        )
        raise DataError(f"{name}: {faults}") from None


def _reason(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "no such setting"
    return str(fault["msg"]).removeprefix("Value error, ")


def _set(data: dict[str, Any], path: list[str], value: Any, name: str) -> None:
    for key in path[:-1]:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise DataError(f"{name}: {key} is no group of settings, so {'.'.join(path)} cannot be")
    data[path[-1]] = value
