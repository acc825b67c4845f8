"""A case as a row of a file, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from safepyramid.errors import DataError
from safepyramid.policy.parse import find_framework
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType
from safepyramid.terminal import one_line

MAX_LISTED = 20
"""So many problems are listed in an error; the others are counted."""

_LEVELS = {
    **{level.value: level for level in Level},
    **{level.value.lower(): level for level in Level},
    **{digit: level for digit, level in zip("012", Level, strict=True)},
}
_TYPES = {kind.value: kind for kind in RuleType}
_OWN_KEYS = frozenset(("rule", "text", "type", "paired_with", "evidence"))


class Problem(NamedTuple):
    """One thing that is wrong with one case."""

    case_id: str
    field: str
    """The field of the case that it concerns, as the file calls it; empty for the whole row."""
    message: str
    """One line: what is there, and what it contradicts."""


class Readings(NamedTuple):
    """What the rows of a file say."""

    cases: list[Case]
    """Of the rows that are cases, in order."""
    faults: list[Problem]
    """What is wrong with the other rows, in order."""
    ids: list[str]
    """Of all rows, in order; `case 7` where the seventh has none."""
    unread: list[str]
    """Of the rows that are no cases."""


def as_level(value: object) -> Level | None:
    """Read `L0`, `l0`, `0` or 0; None for anything else."""
    return None if isinstance(value, bool) else _LEVELS.get(str(value).strip())


class _Row:
    """One row being read. Faults are collected, so that one run reports them all."""

    def __init__(self, row: Mapping[str, Any], position: int, evidence: bool) -> None:
        self.row = row
        self.evidence = evidence
        self.faults: list[Problem] = []
        self.id = self._id(position)

    def fault(self, field: str, message: str) -> None:
        self.faults.append(Problem(self.id, field, message))

    def _id(self, position: int) -> str:
        value = self.row.get("id")
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self.faults.append(Problem(f"case {position}", "id", f"is {_shown(value)}, must be text"))
        return f"case {position}"

    def text(self, field: str, *, may_be_empty: bool = False) -> str:
        value = self.row.get(field)
        if isinstance(value, str) and (value or may_be_empty):
            return value
        self.fault(
            field, f"is {_shown(value)}, must be text" + ("" if may_be_empty else ", not empty")
        )
        return ""

    def parsed(self, value: Any) -> Any:
        """What a text column of a table holds; other values as they are."""
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                return value
        return value

    def numbers(self, value: Any, field: str, *where: object) -> tuple[int, ...]:
        """Rule numbers from a list, one number, `"[1,4]"` or `"1,4"`, in order.

        Blank text is a fault: that nothing is known must not read as an empty list.
        `where` fills the gaps in the name of the field, which only faults need.
        """
        if type(value) is list and set(map(type, value)) <= {int}:
            found = tuple(value)
        else:
            items = value
            if isinstance(value, str) and value.strip():
                items = self.parsed(value if value.strip().startswith("[") else f"[{value}]")
            elif isinstance(value, int | float):
                items = [value]
            if not isinstance(items, list) or not all(map(_is_whole, items)):
                self.fault(
                    field.format(*where), f"is {_shown(value)}, must be a list of rule numbers"
                )
                return ()
            found = tuple(int(number) for number in items)
        if len(set(found)) != len(found):
            self.fault(field.format(*where), f"names a rule more than once: {_shown(list(found))}")
        return found

    def level(self) -> Level:
        level = as_level(self.row.get("level"))
        if level is None:
            self.fault("level", f"is {_shown(self.row.get('level'))}, must be L0, L1 or L2")
        return level or Level.L0

    def rubric(self) -> tuple[RubricEntry, ...]:
        value = self.parsed(self.row.get("rubric"))
        if not isinstance(value, dict):
            self.fault("rubric", f"is {_shown(value)}, must have violations and non_violations")
            return ()
        entries: list[RubricEntry] = []
        for side in ("violations", "non_violations"):
            rows = value.get(side)
            if not isinstance(rows, list):
                self.fault(f"rubric.{side}", f"is {_shown(rows)}, must be a list")
                continue
            for index, row in enumerate(rows):
                entry = self._entry(row, side, index)
                if entry:
                    entries.append(entry)
        return tuple(entries)

    def _entry(self, row: Any, side: str, index: int) -> RubricEntry | None:
        # Some 80,000 of these are read from the published file: the good path comes first.
        if isinstance(row, dict):
            rule, text, kind = row.get("rule"), row.get("text"), row.get("type")
            if type(rule) is int and type(text) is str and type(kind) is str and kind in _TYPES:
                paired = row.get("paired_with")
                return RubricEntry(
                    rule,
                    text,
                    _TYPES[kind],
                    side == "violations",
                    ()
                    if paired is None
                    else self.numbers(paired, "rubric.{}[{}].paired_with", side, index),
                    {} if len(row) == 3 else {k: row[k] for k in row if k not in _OWN_KEYS},
                    row.get("evidence") if self.evidence else None,
                )
        self._bad_entry(row, f"rubric.{side}[{index}]")
        return None

    def _bad_entry(self, row: Any, field: str) -> None:
        if not isinstance(row, dict):
            self.fault(field, f"is {_shown(row)}, must be an object")
            return
        rule, text, kind = row.get("rule"), row.get("text"), row.get("type")
        if type(rule) is not int:
            self.fault(f"{field}.rule", f"is {_shown(rule)}, must be a number")
        if type(text) is not str:
            self.fault(f"{field}.text", f"is {_shown(text)}, must be text")
        if type(kind) is not str or kind not in _TYPES:
            self.fault(f"{field}.type", f"is {_shown(kind)}, must be one of {', '.join(_TYPES)}")

    def failure_modes(self) -> FailureModeMetadata:
        field = "failure_mode_metadata"
        value = self.row.get(field)
        value = self.parsed(self.row.get(f"{field}_json") if value is None else value)
        if not isinstance(value, dict):
            self.fault(field, f"is {_shown(value)}, must be an object")
            return FailureModeMetadata()
        names = ("distractor_rules", "waived_rules", "contradicted_rules")
        return FailureModeMetadata(
            *(frozenset(self.numbers(value.get(name) or [], f"{field}.{name}")) for name in names)
        )

    def case(self) -> Case:
        level = self.level()
        policy = self.text("policy")
        if self.row.get("framework") is None:  # The viewer's table leaves it out.
            framework = find_framework(policy) if level is Level.L2 else ""
        else:
            framework = self.text("framework", may_be_empty=True)
        return Case(
            id=self.id,
            domain=self.text("domain"),
            level=level,
            ground_truth_violations=frozenset(
                self.numbers(self.row.get("ground_truth_violations"), "ground_truth_violations")
            ),
            conversation=self.text("conversation", may_be_empty=True),
            framework=framework,
            policy=policy,
            rubric=self.rubric(),
            failure_mode_metadata=self.failure_modes(),
        )


def _is_whole(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _shown(value: object) -> str:
    try:
        return "missing" if value is None else repr(value)[:60]
    except RecursionError:
        return f"a {type(value).__name__} nested too deeply"


def read_rows(rows: Iterable[Any], *, evidence: bool) -> Readings:
    """Turn the rows of a file into cases, and tell all that is wrong with those that are none.

    Args:
        rows: As `case_files.parse_rows` gives them.
        evidence: Whether to keep the validators' evidence, where the rows have it.
    """
    found = Readings([], [], [], [])
    for position, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            name = f"case {position}"
            found.faults.append(Problem(name, "", f"is {_shown(row)}, must be an object"))
            found.ids.append(name)
            found.unread.append(name)
            continue
        reader = _Row(row, position, evidence)
        case = reader.case()
        found.ids.append(case.id)
        if reader.faults:
            found.faults.extend(reader.faults)
            found.unread.append(case.id)
        else:
            found.cases.append(case)
    return found


def read_cases(rows: Iterable[Any], name: str, *, evidence: bool) -> list[Case]:
    """As `read_rows`, for rows that all have to be cases, each with an id of its own.

    Args:
        rows: As for `read_rows`.
        name: What to call the file in messages.
        evidence: As for `read_rows`.

    Raises:
        DataError: Rows that are no cases, or two of one id: lists every fault with its case and
            field, up to 20, and says how many there are.
    """
    cases, faults, ids, _ = read_rows(rows, evidence=evidence)
    positions: dict[str, int] = {}
    for position, id in enumerate(ids, 1):
        first = positions.setdefault(id, position)
        if first != position:
            faults.append(Problem(id, "id", f"is used by case {first} and case {position}"))
    if faults:
        listed = listed_problems(faults)
        raise DataError(f"{name} has {len(faults):,} fault{'s'[: len(faults) > 1]}: {listed}")
    return cases


def listed_problems(problems: Sequence[Problem]) -> str:
    """Problems in one line, the first 20 of them; of the others their number."""
    shown = "; ".join(
        one_line(f"{id}: {field} {message}" if field else f"{id}: {message}")
        for id, field, message in problems[:MAX_LISTED]
    )
    more = len(problems) - MAX_LISTED
    return f"{shown}; and {more:,} more" if more > 0 else shown


def case_to_dict(case: Case, *, evidence: bool = False) -> dict[str, Any]:
    """A case as the nine fields of the published form, in its order.

    Args:
        case: Any case.
        evidence: Whether to write the validators' evidence, where the case has it.
    """
    entries = {
        side: [_entry_to_dict(e, evidence) for e in case.rubric if e.violated == violated]
        for side, violated in (("violations", True), ("non_violations", False))
    }
    modes = case.failure_mode_metadata
    return {
        "id": case.id,
        "domain": case.domain,
        "level": case.level.value,
        "ground_truth_violations": sorted(case.ground_truth_violations),
        "conversation": case.conversation,
        "framework": case.framework,
        "policy": case.policy,
        "rubric": entries,
        "failure_mode_metadata": {
            "distractor_rules": sorted(modes.distractor_rules),
            "waived_rules": sorted(modes.waived_rules),
            "contradicted_rules": sorted(modes.contradicted_rules),
        },
    }


def _entry_to_dict(entry: RubricEntry, evidence: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"rule": entry.rule, "text": entry.text, "type": entry.type.value}
    if entry.paired_with or entry.type.is_modifier:
        row["paired_with"] = list(entry.paired_with)
    row.update(entry.flags)
    if evidence and entry.evidence is not None:
        row["evidence"] = entry.evidence
    return row
