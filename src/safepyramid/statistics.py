"""What a benchmark holds, in numbers, and what one scores on it without reading it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from safepyramid.conversation import parse_conversation
from safepyramid.errors import DataError
from safepyramid.metrics.baselines import baseline_rows
from safepyramid.schema import Case, Level, RuleType
from safepyramid.terminal import one_line
from safepyramid.tokens import estimate_tokens

ALL = "ALL"


def statistics(cases: Iterable[Case]) -> dict[str, Any]:
    """Count what the benchmark holds, per level and in all, and score trivial predictions on it.

    Rules and their types are those of the rubric. Means, maxima and shares are None without
    cases.

    Returns:
        `levels`: L0, L1, L2 and ALL -> `cases`; `types` (rule type -> rules); `rules_full` (rules of
        all policies); `rules_distinct` (those whose text stands in no lower level of the same
        conversation, so that ALL counts each rule once); `rules_per_policy`,
        `violated_per_policy` and `input_tokens` (policy and conversation, estimated: see
        `estimate_tokens`) as `mean` and `max`; `turns_mean` (exchanges of user and chatbot; None
        where no conversation can be read); `positive_share` (violated of all rules, 0 to 1).
        `conversations` and `domains` (name -> cases). `baselines`: the names of
        `metrics.baselines` -> L0, L1, L2 and ALL -> `rmr`, `rmr_at_1`, `rdr` and `rule_accuracy`,
        fractions, in expectation.
    """
    cases = list(cases)
    groups = {level.value: [c for c in cases if c.level is level] for level in Level} | {ALL: cases}
    distinct = _distinct_rules(cases)
    tokens = _input_tokens(cases)
    levels = {name: _level(group, tokens) for name, group in groups.items()}
    for name, row in levels.items():
        row["rules_distinct"] = sum(distinct.values()) if name == ALL else distinct[name]
    return {
        "levels": levels,
        "conversations": len({case.conversation_id for case in cases}),
        "domains": dict(sorted(Counter(case.domain for case in cases).items())),
        "baselines": _baselines(cases),
    }


def _level(cases: Sequence[Case], tokens: Mapping[str, int]) -> dict[str, Any]:
    types = Counter(entry.type for case in cases for entry in case.rubric)
    rules = [len(case.rubric) for case in cases]
    violated = [len(case.ground_truth_violations) for case in cases]
    turns = [count for case in cases if (count := _exchanges(case.conversation)) is not None]
    return {
        "cases": len(cases),
        "types": {kind.value: types[kind] for kind in RuleType},
        "rules_full": sum(rules),
        "rules_per_policy": _mean_and_max(rules),
        "violated_per_policy": _mean_and_max(violated),
        "input_tokens": _mean_and_max([tokens[case.id] for case in cases]),
        "turns_mean": fmean(turns) if turns else None,
        "positive_share": sum(violated) / sum(rules) if sum(rules) else None,
    }


def _mean_and_max(values: Sequence[int]) -> dict[str, float | int | None]:
    return {"mean": fmean(values) if values else None, "max": max(values, default=None)}


def _exchanges(conversation: str) -> int | None:
    try:
        return parse_conversation(conversation)[-1].number
    except DataError:
        return None


def _input_tokens(cases: Sequence[Case]) -> dict[str, int]:
    conversations = {text: estimate_tokens(text) for text in {c.conversation for c in cases}}
    return {c.id: conversations[c.conversation] + estimate_tokens(c.policy) for c in cases}


def _distinct_rules(cases: Iterable[Case]) -> dict[str, int]:
    """Level -> rules that no lower level of the same conversation has."""
    seen: set[tuple[str, str]] = set()
    counts = dict.fromkeys((level.value for level in Level), 0)
    for case in sorted(cases, key=lambda case: case.level):
        texts = {(case.conversation_id, " ".join(entry.text.split())) for entry in case.rubric}
        counts[case.level.value] += len(texts - seen)
        seen |= texts
    return counts


def _baselines(cases: Sequence[Case]) -> dict[str, dict[str, dict[str, float | None]]]:
    return {
        name: {
            level: {
                "rmr": cell["rmr"],
                "rmr_at_1": cell["rmr_at"]["1.0"],
                "rdr": cell["rdr"],
                "rule_accuracy": cell["rule_accuracy"],
            }
            for level, cell in cells.items()
        }
        for name, cells in baseline_rows(cases).items()
    }


def render_statistics(stats: Mapping[str, Any]) -> str:
    """The statistics as plain text: a table of counts and one of baselines, in percent."""
    levels = stats["levels"]
    counts = [
        ("cases", [row["cases"] for row in levels.values()]),
        *((kind.value, [row["types"][kind.value] for row in levels.values()]) for kind in RuleType),
        ("rules, distinct", [row["rules_distinct"] for row in levels.values()]),
        ("rules, full", [row["rules_full"] for row in levels.values()]),
        *(
            (f"{name}, {which}", [row[key][which] for row in levels.values()])
            for name, key in (
                ("rules per policy", "rules_per_policy"),
                ("violated", "violated_per_policy"),
                ("input tokens (estimate)", "input_tokens"),
            )
            for which in ("mean", "max")
        ),
        ("turns, mean", [row["turns_mean"] for row in levels.values()]),
        ("violated of all rules, %", [_percent(row["positive_share"]) for row in levels.values()]),
    ]
    scores = [
        (f"{name}: {label}", [_percent(cell[key]) for cell in groups.values()])
        for name, groups in stats["baselines"].items()
        for label, key in (
            ("RMR, %", "rmr"),
            ("RMR@1.0, %", "rmr_at_1"),
            ("RDR, %", "rdr"),
            ("rules right, %", "rule_accuracy"),
        )
    ]
    domains = one_line(", ".join(f"{name} {count}" for name, count in stats["domains"].items()))
    return "\n\n".join(
        (
            f"{stats['conversations']:,} conversations; cases by domain: {domains or 'none'}",
            *(
                _table(title, list(levels), rows, max(len(name) for name, _ in counts + scores))
                for title, rows in (("", counts), ("baselines", scores))
            ),
        )
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _table(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Any]]], width: int
) -> str:
    shown = [(title, columns), *((name, [_number(v) for v in values]) for name, values in rows)]
    return "\n".join(
        name.ljust(width) + "".join(value.rjust(10) for value in values) for name, values in shown
    )


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
