"""What has been run, as values and as tidy tables.

A `Run` is one epoch of one Inspect log, or one result file, lined up with the cases that it was
asked. `Runs` holds several and derives four tables from them when they are first read (`frames.py` has the
columns): `runs`, `cases`, `rules` and `usage`.

Runs can be ranked against each other within one *block* only: the same protocol on the same cases.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from safepyramid.metrics.summary import CaseScore, Record, case_scores
from safepyramid.schema import Case, Level, Prediction, Protocol, RuleType

if TYPE_CHECKING:
    import pandas as pd

MAIN_ROLE = "guard"
"""The role of the model that is judged; other roles are named by whoever uses them."""

TOKENS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)
"""Kinds of tokens. The first three add up to the input; reasoning is a part of the output."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a role of a run used. None where it is not known, never 0 for it."""

    role: str
    model: str
    calls: int | None
    input_tokens: int | None
    """Without those that a cache held or took in."""
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    """Thinking included."""
    reasoning_tokens: int | None
    price: float | None
    """US dollars."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run comes from and how it was made. None where its file does not say."""

    path: str
    protocol: Protocol
    epoch: int = 1
    guard: str | None = None
    model: str | None = None
    """None for a guard that calls no model."""
    harness: str | None = None
    """The agent that held the model; None for plain calls."""
    effort: str | None = None
    """Reasoning effort in the provider's words; None for the provider's default."""
    settings: str = ""
    """Everything else that changes what is measured, as JSON text."""
    prompts_hash: str | None = None
    created: str | None = None
    """ISO 8601."""
    version: str | None = None
    """Of safepyramid."""
    price_date: str | None = None
    """The day whose list prices `Usage.price` is in."""
    price_source: str | None = None
    wall_seconds: float | None = None
    """From the start to the end of the log; None where it is not known."""


@dataclass(frozen=True)
class Run:
    """One run, lined up with its cases."""

    name: str
    """Unique among the runs that were loaded together."""
    origin: Origin
    data_hash: str
    """Of `cases`: runs with the same hash stand on the same cases. Of the data that the run says it
    was made on, where nothing tells which part of the cases that is."""
    cases: Sequence[Case]
    """The cases that were asked, in the order of the data."""
    predictions: Mapping[str, Prediction]
    """Case id -> what was said, one for each case; `missing` where nothing was."""
    usage: Sequence[Usage] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Case id -> seconds from its start to its end, waiting included."""
    _scores: dict[str, dict[str, CaseScore]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def block(self) -> tuple[str, str]:
        """Protocol and data: runs of one block can be ranked."""
        return self.origin.protocol, self.data_hash

    @cached_property
    def stands_on(self) -> str:
        """The block in words: protocol, cases by level, data."""
        counts = {level: sum(case.level is level for case in self.cases) for level in Level}
        levels = ", ".join(f"{count:,} {level}" for level, count in counts.items() if count)
        protocol, cases = self.origin.protocol.replace("_", "-"), len(self.cases)
        return (
            f"{protocol}, {cases:,} case{'' if cases == 1 else 's'} ({levels or 'none'}), "
            f"data {self.data_hash[:8]}"
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs repetitions of each other when all of it is equal."""
        o = self.origin
        return {
            "model": o.model,
            "guard": o.guard,
            "protocol": o.protocol,
            "harness": o.harness,
            "effort": o.effort,
            "settings": o.settings,
            "prompts": o.prompts_hash,
            "data": self.data_hash,
        }

    @cached_property
    def records(self) -> list[Record]:
        """What scoring needs, one record a case."""
        return [
            Record(
                case.id,
                case.level,
                case.domain,
                case.ground_truth_violations,
                self.predictions[case.id].state,
                self.predictions[case.id].violated,
            )
            for case in self.cases
        ]

    def scores(self, metric: str) -> dict[str, CaseScore]:
        """What each case adds to a metric, which is named as in tables ("rmr@1.0"); see `case_scores`."""
        if metric not in self._scores:
            self._scores[metric] = case_scores(self.records, metric.removeprefix("rmr@"))
        return self._scores[metric]

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """Case id -> case."""
        return {case.id: case for case in self.cases}

    def answered(self) -> Iterator[tuple[Case, frozenset[int]]]:
        """The scored cases, each with its predicted set."""
        for case in self.cases:
            violated = self.predictions[case.id].violated
            if violated is not None:
                yield case, violated

    def said(self, case: Case) -> dict[int, bool | None]:
        """What the run says of each rule that it was asked about: violated or not; None for no answer.

        Per policy these are all rules of an answered case, per rule all but the conditionals of a case
        with at least one judgment, or with a set from a guard that judges without calls; and numbers
        that the policy does not have, if the run names any. Empty for every other case.
        """
        prediction, types = self.predictions[case.id], case.rule_types
        targets = set(types)
        if self.origin.protocol == "per_rule":
            targets = {r for r, kind in types.items() if kind is not RuleType.CONDITIONAL}
        if prediction.judgments:
            judged = {j.rule: j.verdict.violated for j in prediction.judgments}
            return {rule: judged.get(rule) for rule in sorted({*targets, *judged})}
        if prediction.violated is None:
            return {}
        return {r: r in prediction.violated for r in sorted(targets | prediction.violated)}


@dataclass(frozen=True)
class Runs(Sequence[Run]):
    """Several runs, and the tables that they make. In the order in which they were given."""

    members: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one line each."""

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: Any) -> Any:
        return self.members[index]

    def blocks(self) -> dict[tuple[str, str], list[Run]]:
        """Protocol and data hash -> the runs that stand on them."""
        found: dict[tuple[str, str], list[Run]] = {}
        for run in self.members:
            found.setdefault(run.block, []).append(run)
        return found

    @cached_property
    def runs(self) -> "pd.DataFrame":
        """A row per run: see `frames.run_frame`."""
        from safepyramid.analysis import frames

        return frames.run_frame(self.members)

    @cached_property
    def cases(self) -> "pd.DataFrame":
        """A row per run and case: see `frames.case_frame`."""
        from safepyramid.analysis import frames

        return frames.case_frame(self.members)

    @cached_property
    def rules(self) -> "pd.DataFrame":
        """A row per run, case and rule: see `frames.rule_frame`."""
        from safepyramid.analysis import frames

        return frames.rule_frame(self.members)

    @cached_property
    def usage(self) -> "pd.DataFrame":
        """A row per run, role and model: see `frames.usage_frame`."""
        from safepyramid.analysis import frames

        return frames.usage_frame(self.members)


def total(values: Sequence[int | float | None]) -> Any:
    """The sum, or None when there is none or one of them is not known."""
    if not values or any(value is None for value in values):
        return None
    return sum(value for value in values if value is not None)


def plain_text(text: str) -> str:
    """A text out of a file as a name: nothing in it breaks a line, moves a cursor or is no XML."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def name_runs(origins: Sequence[Origin], data_hashes: Sequence[str]) -> list[str]:
    """Short names that no two runs share.

    A name is the model, or the guard where there is no model, with guard, harness and effort where they
    say something. Runs that would share one are told apart by protocol, prompts, data and settings as
    far as these differ, and by a number for the rest.
    """
    names = [_plain_name(origin) for origin in origins]
    for group in _same(names):
        parts: list[list[str]] = [[names[i]] for i in group]
        details = [_details(origins[i], data_hashes[i]) for i in group]
        for column in zip(*details, strict=True):
            if len(set(column)) > 1:
                for part, detail in zip(parts, column, strict=True):
                    part.append(detail)
        for i, part in zip(group, parts, strict=True):
            names[i] = " · ".join(filter(None, part))
    for group in _same(names):
        for number, i in enumerate(group, 1):
            names[i] += f" #{number}"
    return names


def _plain_name(origin: Origin) -> str:
    guard = origin.guard if origin.model is None or origin.guard != "chat" else None
    parts = [origin.model, guard, origin.harness, origin.effort]
    return plain_text(" · ".join(part for part in parts if part) or origin.path)


def _details(origin: Origin, data_hash: str) -> list[str]:
    return [
        origin.protocol.replace("_", "-"),
        f"prompts {(origin.prompts_hash or 'unknown')[:8]}",
        f"data {data_hash[:8]}",
        origin.settings,
    ]


def _same(names: Sequence[str]) -> list[list[int]]:
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    return [group for group in places.values() if len(group) > 1]
