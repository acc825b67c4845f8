"""One run against another, case by case and rule by rule; and runs that repeat each other."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from safepyramid.analysis.estimates import labels, levels_of, to_frame
from safepyramid.analysis.runs import Run, Runs
from safepyramid.errors import DataError
from safepyramid.metrics.agreement import agreement
from safepyramid.metrics.rulesets import mean_match
from safepyramid.metrics.stats import Difference, cases_needed, holm, paired_difference
from safepyramid.metrics.summary import GROUPS, POOLED, summarize
from safepyramid.schema import Case, State

METRICS = ("rmr", "rmr@1.0", "rdr", "rmr_lower_bound")
DRAWS = 4_000
"""Resamples, and swaps, of one comparison: p-values down to 1/4,000."""

CHANGES = {
    "fixed": "exactly right in the second run only",
    "broken": "exactly right in the first run only",
    "moved": "exactly right in neither, and the answers differ",
    "same": "the same answer, or none, in both",
}
"""What happened to a case from the first run to the second. Every case has exactly one."""


@dataclass(frozen=True)
class Comparison:
    """How a second run differs from a first one, on the cases that both were asked."""

    first: str
    second: str
    differences: pd.DataFrame
    """A row per level and metric: see `differences`."""
    cases: pd.DataFrame
    """A row per case: see `case_changes`."""
    rules: pd.DataFrame
    """A row per level and rule type: see `rule_changes`."""
    notes: tuple[str, ...]
    points: float | None = None
    """The change, in percentage points, that `needed` is about; None for the one that was found."""

    def counts(self, by: str) -> pd.DataFrame:
        """Cases per change, by `level` or `domain`: `cases`, the keys of `CHANGES`, `net` (fixed − broken)."""
        rows = []
        for value, part in self.cases.groupby(by, sort=True, observed=True):
            found = Counter(part["change"])
            counts = {change: found[change] for change in CHANGES}
            net = counts["fixed"] - counts["broken"]
            rows.append({by: value, "cases": len(part), **counts, "net": net})
        return to_frame(rows)


def compare(
    first: Run, second: Run, *, seed: int = 0, draws: int = DRAWS, points: float | None = None
) -> Comparison:
    """Compare two runs on the cases that both were asked.

    Args:
        first: The run that changes are counted from.
        second: The run that they are counted to.
        seed: Of the resampling.
        draws: Resamples, and swaps of the test.
        points: Say how many cases a change of so many percentage points needs, instead of one as
            large as was found.

    Raises:
        DataError: They have no case in common, or a common case differs in its text or its truth.
    """
    common = _common_cases(first, second)
    notes = []
    for run in (first, second):
        alone = len(run.cases) - len(common)
        if alone:
            notes.append(f"{alone} of the {len(run.cases)} cases of {run.name} are left out")
    if first.origin.protocol != second.origin.protocol:
        notes.append("the runs differ in protocol")
    return Comparison(
        first.name,
        second.name,
        to_frame(list(differences(first, second, common, seed=seed, draws=draws, points=points))),
        to_frame([case_changes(case, first, second) for case in common]),
        to_frame(list(rule_changes(first, second, common))),
        tuple(notes),
        points,
    )


def _common_cases(first: Run, second: Run) -> list[Case]:
    common = [case for case in first.cases if case.id in second.by_id]
    if not common:
        raise DataError(
            f"{first.name} and {second.name} have no case in common; compare runs on the same data"
        )
    for case in common:
        if _content(case) != _content(second.by_id[case.id]):
            raise DataError(
                f"case {case.id} is not the same in {first.name} and {second.name}; compare runs on "
                "the same version of the data"
            )
    return common


def _content(case: Case) -> tuple[Any, ...]:
    return case.policy, case.conversation, case.ground_truth_violations


def differences(
    first: Run,
    second: Run,
    common: Sequence[Case],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    points: float | None = None,
) -> Iterator[dict[str, Any]]:
    """The change of each metric from the first run to the second.

    Yields:
        Per level and metric: both values (`first`, `second`) on the cases that both answered, for the
        lower bound on all of them; `difference` (second − first) with `_low` and `_high`; `p`, two-sided,
        and `p_holm`, adjusted for all rows; `cases` and `conversations` compared; `dropped`, cases
        that only one run answered; and `needed`, how many cases it takes to find a difference of
        `points` with 80 % power, or one of this size where the interval holds 0.
    """
    rows: list[dict[str, Any]] = []
    for metric in METRICS:
        both = [run.scores(metric) for run in (first, second)]
        for level in GROUPS:
            ids = {case.id for case in common if level in (case.level, POOLED)}
            a, b = ({i: s for i, s in scores.items() if i in ids} for scores in both)
            if not ids:
                continue
            found = paired_difference(b, a, seed=seed, draws=draws)
            shared = a.keys() & b.keys()
            rows.append(
                {
                    "level": level,
                    "metric": metric,
                    "first": _value(a, shared),
                    "second": _value(b, shared),
                    "difference": found.value if found else None,
                    "difference_low": found.low if found else None,
                    "difference_high": found.high if found else None,
                    "p": found.p_value if found else None,
                    "cases": len(shared),
                    "conversations": found.conversations if found else None,
                    "dropped": len(a.keys() ^ b.keys()),
                    "needed": _needed(found, points),
                }
            )
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        yield {**row, "p_holm": p}


def _value(scores: Mapping[str, Any], ids: Any) -> float | None:
    below = sum(scores[i].denominator for i in ids)
    return sum(scores[i].numerator for i in ids) / below if below else None


def _needed(found: Difference | None, points: float | None) -> int | None:
    # Without an interval there are too few conversations to know how far they differ.
    if found is None or not found.design_effect or found.low is None or found.high is None:
        return None
    size = found.value if points is None else points / 100
    if not size or (points is None and not found.low <= 0 <= found.high):
        return None
    return cases_needed(size, sd=found.sd, design_effect=found.design_effect)


def case_changes(case: Case, first: Run, second: Run) -> dict[str, Any]:
    """What happened to a case from one run to the other.

    Returns:
        `case`, `level`, `domain`; `first_state` and `second_state`; `first_rmr` and `second_rmr`, the
        case's shares of matched τ; `change`, a key of `CHANGES`; `rules_fixed` and `rules_broken`, the
        rules that only the second or only the first run got right (empty unless both answered).
    """
    gold = case.ground_truth_violations
    before, after = first.predictions[case.id], second.predictions[case.id]
    a, b = before.violated, after.violated
    if (a == gold) != (b == gold):
        change = "fixed" if b == gold else "broken"
    else:
        change = "same" if a == b else "moved"
    wrong = (a ^ gold, b ^ gold) if a is not None and b is not None else (frozenset[int](),) * 2
    return {
        "case": case.id,
        "level": case.level.value,
        "domain": case.domain,
        "first_state": before.state.value,
        "second_state": after.state.value,
        "first_rmr": None if a is None else mean_match(a, gold),
        "second_rmr": None if b is None else mean_match(b, gold),
        "change": change,
        "rules_fixed": sorted(wrong[0] - wrong[1]),
        "rules_broken": sorted(wrong[1] - wrong[0]),
    }


def rule_changes(first: Run, second: Run, common: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Single rules from one run to the other, over cases that both answered.

    Yields:
        Per level and rule `type`: `rules`, of which `right` in both runs, `wrong` in both, `fixed` (right
        in the second only) and `broken` (right in the first only); and `net` (fixed − broken). Numbers
        that the policy does not have are left out.
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    for case in common:
        a, b = (run.predictions[case.id].violated for run in (first, second))
        if a is None or b is None:
            continue
        wrong_a, wrong_b = (said ^ case.ground_truth_violations for said in (a, b))
        for rule, kind in case.rule_types.items():
            names = {(0, 0): "right", (1, 1): "wrong", (1, 0): "fixed", (0, 1): "broken"}
            outcome = names[rule in wrong_a, rule in wrong_b]
            for level in (case.level.value, POOLED):
                for type_ in ("all", kind.value):
                    counts.setdefault((level, type_), Counter())[outcome] += 1
    order = ("all", "decisive", "distractor", "exception", "conditional")
    for level, type_ in sorted(counts, key=lambda key: (GROUPS.index(key[0]), order.index(key[1]))):
        found = counts[level, type_]
        yield {
            "level": level,
            "type": type_,
            "rules": found.total(),
            **{name: found[name] for name in ("right", "wrong", "fixed", "broken")},
            "net": found["fixed"] - found["broken"],
        }


def repeats(runs: Runs) -> pd.DataFrame:
    """Runs that repeat each other: how far their scores and their answers agree.

    Runs repeat each other when model, guard, protocol, harness, effort, settings, prompts and data are
    the same; epochs of one log do.

    Returns:
        A row per set of repetitions and level: `run` (the first one's name), `runs` (how many);
        `rmr_mean`, `rmr_sd` (between runs; missing with one defined value), `rmr_min`, `rmr_max`;
        `same_answer`, the share of cases, among those that all runs answered, with the same set in all;
        `agreement`, the mean share of equal pairs of verdicts per rule, and `alpha`, Krippendorff's; and
        `always_answered`, the share of cases that all runs answered.
    """
    groups: dict[tuple[tuple[str, Any], ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(run.identity.items()), []).append(run)
    rows = []
    for members in groups.values():
        if len(members) > 1:
            summaries = [summarize(run.records)["groups"] for run in members]
            for level in levels_of(members[0].cases):
                values = [cells[level]["rmr"] for cells in summaries]
                rows.append(_repeat_row(members, level, [v for v in values if v is not None]))
    return to_frame(rows)


def _repeat_row(members: Sequence[Run], level: str, rmr: Sequence[float]) -> dict[str, Any]:
    cases = [case for case in members[0].cases if level in (case.level, POOLED)]
    answers = [[run.predictions[case.id] for run in members] for case in cases]
    both = [said for said in answers if all(each.state is State.ANSWERED for each in said)]
    same = sum(len({each.violated for each in said}) == 1 for said in both)
    ratings = []
    for case in cases:
        said_by = [run.said(case) for run in members]
        ratings += [[said.get(rule) for said in said_by] for rule in case.rule_types]
    found = agreement(ratings)
    return {
        **labels(members[0], level),
        "runs": len(members),
        "rmr_mean": fmean(rmr) if rmr else None,
        "rmr_sd": stdev(rmr) if len(rmr) > 1 else None,
        "rmr_min": min(rmr, default=None),
        "rmr_max": max(rmr, default=None),
        "same_answer": same / len(both) if both else None,
        "agreement": found.raw,
        "alpha": found.alpha,
        "always_answered": len(both) / len(cases) if cases else None,
    }
