"""Every wrong rule of a run: what it was, what touches it, what was said, and how it went wrong."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from safepyramid.analysis.estimates import labels, levels_of, ordered, to_frame
from safepyramid.analysis.runs import Run, Runs
from safepyramid.metrics.failures import WrongRule, wrong_rules
from safepyramid.metrics.summary import POOLED, ratio
from safepyramid.schema import Case, RubricEntry, RuleType

CAUSES = {
    "flagged-unknown": "flagged a number that the policy does not have",
    "flagged-waived": "flagged a rule that an exception waives",
    "flagged-exception": "flagged an exception that does not apply or whose standard is met",
    "flagged-conditional": "flagged a conditional, which is never violated itself",
    "flagged-distractor": "flagged a rule about something that never happens",
    "flagged-tightened": "flagged a kept rule that a conditional names",
    "flagged-kept": "flagged a kept rule that no conditional names",
    "missed-tightened": "missed a rule that is violated only through a conditional",
    "missed-exception": "missed an exception whose own standard is not met",
    "missed-waivable": "missed a violated rule that an exception names but does not waive",
    "missed-plain": "missed a violated rule that no exception names",
}
"""How a rule can go wrong. Every wrong rule has exactly one cause: the first in this order that fits.

It says what the rule is and what acts on it, which is known, and not what the model thought.
"""


def cause_of(wrong: WrongRule, case: Case) -> str:
    """The cause of a wrong rule, a key of `CAUSES`."""
    meta, rule = case.failure_mode_metadata, wrong.rule
    kind = case.rule_types.get(rule)
    named_by = {entry.type for entry in modifiers_of(rule, case)}
    if wrong.kind == "fp":
        if kind is None:
            return "flagged-unknown"
        if rule in meta.waived_rules:
            return "flagged-waived"
        if kind is not RuleType.DECISIVE:
            return f"flagged-{kind.value}"
        return "flagged-tightened" if RuleType.CONDITIONAL in named_by else "flagged-kept"
    if rule in meta.contradicted_rules:
        return "missed-tightened"
    if kind is RuleType.EXCEPTION:
        return "missed-exception"
    return "missed-waivable" if RuleType.EXCEPTION in named_by else "missed-plain"


def modifiers_of(rule: int, case: Case) -> list[RubricEntry]:
    """The exceptions and conditionals that act on a rule, by number."""
    found = (entry for entry in case.rubric if rule in entry.paired_with)
    return sorted(found, key=lambda entry: entry.rule)


def causes(runs: Runs) -> pd.DataFrame:
    """Count the wrong rules of answered cases by cause.

    Returns:
        A row per run, level and `cause`, in the order of `CAUSES`: `errors`, and their `share` of the
        level's errors.
    """
    rows = []
    for members in runs.blocks().values():
        for run in ordered(members):
            counts: dict[tuple[str, str], int] = {}
            for case, predicted in run.answered():
                for wrong in wrong_rules(case, predicted):
                    for level in (case.level.value, POOLED):
                        key = level, cause_of(wrong, case)
                        counts[key] = counts.get(key, 0) + 1
            for level in levels_of(run.cases):
                errors = sum(n for (found, _), n in counts.items() if found == level)
                rows += [
                    {
                        **labels(run, level),
                        "cause": cause,
                        "errors": counts.get((level, cause), 0),
                        "share": ratio(counts.get((level, cause), 0), errors),
                    }
                    for cause in CAUSES
                ]
    return to_frame(rows)


WRONG_RULE_COLUMNS = (
    *("run", "case", "level", "domain", "rule", "kind", "cause", "attributed", "type", "text"),
    *("flags", "paired_with", "modifiers", "waived", "tightened", "evidence", "gold", "predicted"),
    *("note", "reply"),
)


def wrong_rule_frame(runs: Runs) -> pd.DataFrame:
    """The rows of `wrong_rule_rows` as a table, which has its columns also where nothing is wrong."""
    frame = to_frame(list(wrong_rule_rows(runs)))
    return frame if len(frame) else pd.DataFrame(columns=list(WRONG_RULE_COLUMNS))


def wrong_rule_rows(runs: Runs, *, replies: bool = True) -> Iterator[dict[str, Any]]:
    """Every wrong rule of the answered cases, for reading one by one or for export.

    Args:
        runs: What was run.
        replies: Read what the model said out of the logs, which takes a while for many cases.

    Yields:
        By run, in the order of the cases: `run`, `case`, `level`, `domain`, `rule`, `kind` ("fp" or
        "fn"), `cause`, `attributed` (the rule type that error tables put it down to), `type`, `text` and
        `flags` of the rule (all None for an unknown number), `paired_with` (the rules that it acts
        on), `modifiers` (the exceptions and conditionals that act on it: `rule`, `type`, `text`,
        `flags`), `waived` and `tightened`, whether one of them does so here; `evidence`, where the
        dataset has it; `gold` and `predicted` of the whole case; `note`, how the answer was read; and
        `reply`, the model's own words: of the judgment per rule, of the whole answer per policy; None
        where no log has them.
    """
    for run in runs:
        failed = [
            (case, predicted)
            for case, predicted in run.answered()
            if predicted != case.ground_truth_violations
        ]
        said = _replies(run, [case.id for case, _ in failed]) if replies else {}
        for case, predicted in failed:
            for wrong in wrong_rules(case, predicted):
                yield _row(run, case, wrong, said.get(case.id))


def _replies(run: Run, case_ids: list[str]) -> dict[str, Any]:
    from safepyramid.results.logs import is_log, read_replies

    path = run.origin.path
    if not case_ids or not is_log(path) or not Path(path).is_file():
        return {}
    return read_replies(path, case_ids, run.origin.epoch)


def _row(run: Run, case: Case, wrong: WrongRule, said: Any) -> dict[str, Any]:
    entry = next((entry for entry in case.rubric if entry.rule == wrong.rule), None)
    meta, prediction = case.failure_mode_metadata, run.predictions[case.id]
    notes = {j.rule: j.verdict.note for j in prediction.judgments}
    return {
        "run": run.name,
        "case": case.id,
        "level": case.level.value,
        "domain": case.domain,
        "rule": wrong.rule,
        "kind": wrong.kind,
        "cause": cause_of(wrong, case),
        "attributed": wrong.type,
        "type": entry.type.value if entry else None,
        "text": entry.text if entry else None,
        "flags": dict(entry.flags) if entry else None,
        "paired_with": list(entry.paired_with) if entry else None,
        "modifiers": [
            {"rule": m.rule, "type": m.type.value, "text": m.text, "flags": dict(m.flags)}
            for m in modifiers_of(wrong.rule, case)
        ],
        "waived": wrong.rule in meta.waived_rules,
        "tightened": wrong.rule in meta.contradicted_rules,
        "evidence": entry.evidence if entry else None,
        "gold": sorted(case.ground_truth_violations),
        "predicted": sorted(prediction.violated or ()),
        "note": notes.get(wrong.rule, prediction.note),
        "reply": said.get(wrong.rule) if isinstance(said, Mapping) else said,
    }
