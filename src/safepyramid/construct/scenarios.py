"""The scenario catalogue: the situations that conversations are made from."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic import model_validator as validated

from safepyramid.construct.source import Domain, Text
from safepyramid.errors import DataError
from safepyramid.schema import DOMAINS

CATALOGUE = Path(str(files("safepyramid") / "data" / "scenarios"))
"""Where the bundled catalogue lies: one file a domain."""
PER_DOMAIN = 30
"""So many scenarios the bundled catalogue has in each of the ten domains."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation with room for careful and careless behaviour."""

    id: str
    """`fraud-07`: the domain and a number."""
    domain: str
    title: str
    situation: str
    """Who asks which chatbot for what, and what is delicate about it."""
    careful: str
    """What a chatbot does here that does well."""
    careless: str
    """What one does that does not."""
    context: tuple[str, ...]
    """Facts for rules to turn on; a conversation takes up some of them."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    title: Text
    situation: Text
    careful: Text
    careless: Text
    context: list[Text] = Field(min_length=2)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    domain: Domain
    scenarios: list[_Entry] = Field(min_length=1)

    @validated(mode="after")
    def _ids_belong_to_the_domain(self) -> Self:
        for entry in self.scenarios:
            number = entry.id.removeprefix(f"{self.domain}-")
            if number == entry.id or len(number) < 2 or not number.isdigit():
                raise ValueError(f"id {entry.id!r} must be {self.domain}-01, {self.domain}-02, …")
        return self


def load_scenarios(folder: str | Path | None = None) -> tuple[Scenario, ...]:
    """Read a catalogue: every `*.yaml` of a folder, ordered by id.

    Args:
        folder: Where the files lie; the bundled catalogue if not given.

    Raises:
        DataError: Every fault of form or of uniqueness, in one message.
    """
    scenarios, problems = _read(Path(folder) if folder is not None else CATALOGUE)
    if problems:
        raise DataError("\n".join(problems))
    return scenarios


def scenario_problems(folder: str | Path | None = None) -> list[str]:
    """Everything that is wrong with a catalogue, one line each; empty when clean.

    The bundled one must also have all ten domains with `PER_DOMAIN` scenarios each.

    Args:
        folder: Where the files lie; the bundled catalogue if not given.
    """
    scenarios, problems = _read(Path(folder) if folder is not None else CATALOGUE)
    if folder is None:
        counts = Counter(scenario.domain for scenario in scenarios)
        problems += [
            f"{domain}: {counts[domain]} scenarios, expected {PER_DOMAIN}"
            for domain in sorted({*DOMAINS, *counts})
            if counts[domain] != (PER_DOMAIN if domain in DOMAINS else 0)
        ]
    return problems


def _read(folder: Path) -> tuple[tuple[Scenario, ...], list[str]]:
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        return (), [f"{folder}: no *.yaml here; give a folder with one scenario file a domain"]
    scenarios: list[Scenario] = []
    problems: list[str] = []
    for path in paths:
        try:
            found = _File.model_validate(_yaml(path))
        except ValidationError as error:
            problems += [
                f"{path.name}: {_where(fault)}: {fault['msg']}" for fault in error.errors()
            ]
        except OSError as error:
            problems.append(f"{path.name}: cannot be read: {error.strerror}")
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            problems.append(f"{path.name}: not readable as YAML: {' '.join(str(error).split())}")
        else:
            scenarios += [_scenario(entry, found.domain) for entry in found.scenarios]
    scenarios.sort(key=lambda scenario: scenario.id)
    return tuple(scenarios), problems + _repeats(scenarios)


def _yaml(path: Path) -> Any:
    return yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def _where(fault: Any) -> str:
    return ".".join(map(str, fault["loc"])) or "file"


def _scenario(entry: _Entry, domain: str) -> Scenario:
    folded = {
        name: " ".join(getattr(entry, name).split())
        for name in ("title", "situation", "careful", "careless")
    }
    context = tuple(" ".join(fact.split()) for fact in entry.context)
    return Scenario(id=entry.id, domain=domain, context=context, **folded)


def _repeats(scenarios: Sequence[Scenario]) -> list[str]:
    problems = []
    for name, values in (
        ("id", [s.id for s in scenarios]),
        ("title", [s.title.casefold() for s in scenarios]),
        ("situation", [s.situation.casefold() for s in scenarios]),
    ):
        doubled = sorted(value for value, count in Counter(values).items() if count > 1)
        problems += [f"{name} used more than once: {value[:70]!r}" for value in doubled]
    prefixes: dict[str, set[str]] = {}
    for scenario in scenarios:
        prefixes.setdefault(scenario.domain[:4], set()).add(scenario.domain)
    problems += [
        f"domains {', '.join(sorted(domains))} begin alike: case ids take the first four letters, "
        "so rename one"
        for domains in prefixes.values()
        if len(domains) > 1
    ]
    return problems
