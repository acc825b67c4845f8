"""Runs as tidy pandas tables."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from safepyramid.analysis.runs import TOKENS, Origin, Run, total
from safepyramid.metrics.failures import UNKNOWN, wrong_rules
from safepyramid.metrics.rulesets import errors, mean_match

_CASE_COLUMNS = (
    *("run", "case", "conversation", "domain", "level", "state", "gold", "predicted"),
    *("fp", "fn", "unknown", "rmr", "exact", "strict", "note", "seconds"),
)
_RULE_COLUMNS = (
    *("run", "case", "level", "rule", "type", "gold", "predicted", "wrong", "attributed"),
)


def run_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """A row per run: what was run, on what, when, with how many tokens, at what price.

    `run`, all fields of `Origin`, `data_hash`, `block` (in words), `cases`, `scored`, `calls`,
    the five kinds of tokens, `price` (US dollars) and `seconds_per_case` (mean, waiting included).
    Missing values where a file does not say.
    """
    frame = pd.DataFrame([_run_row(run) for run in runs])
    whole = dict.fromkeys(("calls", *TOKENS), "Int64")
    floats = dict.fromkeys(("price", "wall_seconds", "seconds_per_case"), "Float64")
    return frame.astype({**whole, **floats}) if len(frame) else frame


def case_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """A row per run and case: truth, prediction, state, errors.

    `run`, `case`, `conversation`, `domain`, `level`, `state`, `gold` and `predicted` (sets of rule
    numbers; None unless answered), `fp`, `fn`, `unknown` (numbers that the policy does not have),
    `rmr` (the case's share of matched τ) and `exact`, missing unless answered; `strict`, `note`,
    `seconds`.
    """
    rows = [row for run in runs for row in _case_rows(run)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_CASE_COLUMNS)
    # A model's text may hold half a surrogate pair, which pandas' own text type cannot take.
    frame = pd.DataFrame(
        {
            n: pd.Series(column, dtype=object)
            for n, column in zip(_CASE_COLUMNS, columns, strict=True)
        }
    )
    types = dict.fromkeys(("run", "domain", "level", "state"), "category")
    numbers = {"fp": "Int16", "fn": "Int16", "unknown": "Int16", "exact": "boolean"}
    more = {"rmr": "Float32", "seconds": "Float32", "strict": "bool"}
    return frame.astype({**types, **numbers, **more})


def rule_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """A row per run, case and rule that the run was asked about (see `Run.said`).

    `run`, `case`, `level`, `rule`, `type`, `gold` (violated), `predicted` (missing for a verdict
    that was not answered), `wrong` ("fp", "fn" or missing) and `attributed` (the kind of rule that a
    wrong one is put down to). Per rule, an unanswered verdict on a violated rule is "fn" if the
    case itself is answered.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _RULE_COLUMNS}
    for run in runs:
        _add_rules(columns, run)
    text = ("run", "case", "level", "type", "wrong", "attributed")
    data = {n: pd.Categorical(v) if n in text else v for n, v in columns.items()}
    return pd.DataFrame(data).astype({"rule": "int64", "gold": "bool", "predicted": "boolean"})


def usage_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """A row per run, role and model: `calls`, the five kinds of tokens, `price` (US dollars)."""
    columns = ["run", "role", "model", "calls", *TOKENS, "price"]
    rows = [
        [run.name, *(getattr(use, name) for name in columns[1:])]
        for run in runs
        for use in run.usage
    ]
    whole = dict.fromkeys(("calls", *TOKENS), "Int64")
    return pd.DataFrame(rows, columns=columns).astype({**whole, "price": "Float64"})


def _run_row(run: Run) -> dict[str, Any]:
    seconds = list(run.seconds.values())
    return {
        "run": run.name,
        **{name: getattr(run.origin, name) for name in Origin.__slots__},
        "data_hash": run.data_hash,
        "block": run.stands_on,
        "cases": len(run.cases),
        "scored": sum(p.violated is not None for p in run.predictions.values()),
        **{
            name: total([getattr(use, name) for use in run.usage])
            for name in ("calls", *TOKENS, "price")
        },
        "seconds_per_case": sum(seconds) / len(seconds) if seconds else None,
    }


def _case_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for case in run.cases:
        said = run.predictions[case.id]
        gold, predicted = case.ground_truth_violations, said.violated
        found: tuple[Any, ...] = (None,) * 5
        if predicted is not None:
            fp, fn, _ = errors(predicted, gold)
            found = (
                fp,
                fn,
                len(said.unknown_rules),
                mean_match(predicted, gold),
                predicted == gold,
            )
        yield (
            *(run.name, case.id, case.conversation_id, case.domain, case.level.value),
            *(said.state.value, gold, predicted, *found, said.strict, said.note),
            run.seconds.get(case.id),
        )


def _add_rules(columns: dict[str, list[Any]], run: Run) -> None:
    for case in run.cases:
        said = run.said(case)
        if not said:
            continue
        types, violated = case.rule_types, run.predictions[case.id].violated
        found = [] if violated is None else wrong_rules(case, violated)
        wrong = {each.rule: each for each in found}
        asked = list(said)
        columns["run"] += [run.name] * len(asked)
        columns["case"] += [case.id] * len(asked)
        columns["level"] += [case.level.value] * len(asked)
        columns["rule"] += asked
        columns["type"] += [types[r].value if r in types else UNKNOWN for r in asked]
        columns["gold"] += [r in case.ground_truth_violations for r in asked]
        columns["predicted"] += [said[r] for r in asked]
        columns["wrong"] += [wrong[r].kind if r in wrong else None for r in asked]
        columns["attributed"] += [wrong[r].type if r in wrong else None for r in asked]
