"""From result files and a dataset to the numbers of `safepyramid score`, and to a text table."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.dataset.select import select_cases
from safepyramid.errors import DataError
from safepyramid.metrics.baselines import baseline_rows
from safepyramid.metrics.failures import FAILURE_MODES, count_errors, count_failure_modes
from safepyramid.metrics.summary import GROUPS, Record, RuleRecord, rule_metrics, summarize
from safepyramid.results.made_on import data_of
from safepyramid.results.read import Results, fit_to_cases, read_results
from safepyramid.schema import Case, Level, Prediction, RuleType, State
from safepyramid.terminal import one_line

log = logging.getLogger(__name__)

Filter = str | Iterable[str] | None


def score_files(
    files: Iterable[str | Path],
    dataset: str | Path | None = None,
    *,
    level: Filter = None,
    domain: Filter = None,
    other_data: bool = False,
) -> dict[str, Any]:
    """Score the result files of one run.

    What the reader of the numbers should know besides (cut lines, missing cases and judgments, mixed
    models) is logged as warnings.

    Args:
        files: Inspect logs, result lines or per-rule judgment lines; later ones override earlier ones.
        dataset: As for `load_benchmark`; all its cases count, those without a result as missing. If
            not given, the data that the files name, of which the cases count that were asked; the
            bundled sample where they name none.
        level: Score these levels only, as for `load_benchmark`. Results of other cases may be there.
        domain: Score these domains only.
        other_data: Warn, and do not stop, where the dataset is not what a file was made on.

    Returns:
        As `score_results`.

    Raises:
        DataError: A file cannot be used or was made on other data, the files name several datasets
            or are of different runs, results name a case that the dataset does not have, or a filter leaves no case.
    """
    return _score(*_load(files, dataset, level, domain, other_data))


def render_files(
    files: Iterable[str | Path],
    dataset: str | Path | None = None,
    *,
    level: Filter = None,
    domain: Filter = None,
    other_data: bool = False,
) -> str:
    """Score the result files of one run as a text table, baselines beside it.

    Takes what `score_files` takes.
    """
    results, cases = _load(files, dataset, level, domain, other_data)
    baselines = baseline_rows(cases, protocol=results.protocol)
    return render_score(_score(results, cases), baselines=baselines)


def _load(
    files: Iterable[str | Path],
    dataset: str | Path | None,
    level: Filter,
    domain: Filter,
    other_data: bool,
) -> tuple[Results, list[Case]]:
    results = read_results(files)
    _require_one_run(results)
    every, cases, notes = data_of(results, dataset, other_data=other_data)
    if level is not None or domain is not None:
        cases = select_cases(cases, level=level, domain=domain)
    results = fit_to_cases(results, cases, known=[case.id for case in every])
    for note in (*notes, *results.notes):
        log.warning("%s", one_line(note))
    return results, cases


def _require_one_run(results: Results) -> None:
    """Refuse files whose headers name different runs: one table of both would be of neither."""
    for key in ("model", "guard", "prompts_hash"):
        named = {str(header[key]): None for header in results.headers if header.get(key)}
        if len(named) > 1:
            raise DataError(
                f"the files are of different runs ({key}: {', '.join(named)}); score one run at a "
                "time, or set them side by side with `safepyramid table results`"
            )


def score_results(results: Results, cases: Sequence[Case]) -> dict[str, Any]:
    """Score a run's results on a set of cases.

    Args:
        results: As read, or lined up already.
        cases: What to score on. Cases without a result are `missing`.

    Returns:
        `protocol`; `groups`, `by_domain` and `states` as `summarize` has them; `failure_modes` and
        `error_attribution` of the answered cases, per level; per rule also `rules` as `rule_metrics`.

    Raises:
        DataError: There are results for cases that are not among `cases`.
    """
    return _score(fit_to_cases(results, cases), cases)


def _score(results: Results, cases: Sequence[Case]) -> dict[str, Any]:
    predictions = results.predictions
    answered = [
        (case, violated)
        for case in cases
        if (violated := predictions[case.id].violated) is not None
    ]
    result = {
        "protocol": results.protocol,
        **summarize(to_record(case, predictions[case.id]) for case in cases),
        "failure_modes": count_failure_modes(answered),
        "error_attribution": count_errors(answered),
    }
    if results.protocol == "per_rule":
        result["rules"] = rule_metrics(
            record for case in cases for record in to_rule_records(case, predictions[case.id])
        )
    return result


def to_record(case: Case, prediction: Prediction) -> Record:
    """What scoring needs of a case and its prediction."""
    return Record(
        case_id=case.id,
        level=case.level,
        domain=case.domain,
        gold=case.ground_truth_violations,
        state=prediction.state,
        predicted=prediction.violated,
    )


def to_rule_records(case: Case, prediction: Prediction) -> Iterator[RuleRecord]:
    """The judgments of a prediction beside the truth, but for those on conditionals or on no rule.

    A guard that judges without calls gives the set alone: that is a verdict on every target.
    """
    types = case.rule_types
    verdicts = {j.rule: j.verdict.violated for j in prediction.judgments}
    if not verdicts and prediction.violated is not None:
        verdicts = {rule: rule in prediction.violated for rule in types}
    for rule, violated in verdicts.items():
        kind = types.get(rule)
        if kind is not None and kind is not RuleType.CONDITIONAL:
            gold = rule in case.ground_truth_violations
            yield RuleRecord(case.level, kind, gold, violated)


def render_score(
    result: Mapping[str, Any],
    baselines: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> str:
    """A score as a text table, in percent; an undefined value is a dash.

    Args:
        result: As `score_results` returns it.
        baselines: Rows to show under each group, as `baseline_rows` returns them.
    """
    rows = [["", "RMR ↑", "RMR@1.0 ↑", "RDR ↓", "lower bound ↑", "scored/all"]]
    for group in GROUPS:
        cell = result["groups"][group]
        rows.append(_row(group, cell))
        if cell["total"]:
            rows += [_row(f"  {name}", groups[group]) for name, groups in (baselines or {}).items()]
    states = {
        state.value: sum(counts[state.value] for counts in result["states"].values())
        for state in State
    }
    parts = [
        _table(rows),
        "lower bound: RMR with every case that was not answered as a miss",
        "states: " + ", ".join(f"{name} {count}" for name, count in states.items() if count),
        _table(_failure_rows(result)),
        _table(_error_rows(result)),
    ]
    if "rules" in result:
        parts.append(_table(_rule_rows(result["rules"])))
    return "\n\n".join(parts)


def _row(name: str, cell: Mapping[str, Any]) -> list[str]:
    return [
        name,
        _percent(cell["rmr"]),
        _percent(cell["rmr_at"]["1.0"]),
        _percent(cell["rdr"]),
        _percent(cell["rmr_lower_bound"]),
        f"{cell['scored']}/{cell['total']}",
    ]


def _failure_rows(result: Mapping[str, Any]) -> list[list[str]]:
    levels = [level.value for level in Level]
    rows = [["failed cases ↓", *levels]]
    for mode, meaning in FAILURE_MODES.items():
        counts = [result["failure_modes"][level].get(mode) for level in levels]
        rows.append([f"{mode} {meaning}", *("–" if n is None else str(n) for n in counts)])
    return rows


def _error_rows(result: Mapping[str, Any]) -> list[list[str]]:
    counts = result["error_attribution"]
    types = list(
        dict.fromkeys(t for level in counts.values() for kind in level.values() for t in kind)
    )
    rows = [["errors by rule type ↓", *types]]
    for level, by_kind in counts.items():
        for kind, name in (("fp", "false positives"), ("fn", "false negatives")):
            rows.append([f"{level} {name}", *(str(by_kind[kind].get(t, 0)) for t in types)])
    return rows


def _rule_rows(rules: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[list[str]]:
    shares = ("accuracy", "precision", "recall", "f1")
    rows = [["verdicts", "n", "refused ↓", *(f"{share} ↑" for share in shares)]]
    for level, by_type in rules.items():
        for kind, scores in by_type.items():
            name = f"{level} {kind}" if kind == "all" else f"  {kind}"
            values = [_percent(scores[share]) for share in shares]
            rows.append([name, str(scores["n"]), _percent(scores["refused_rate"]), *values])
    return rows


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest entry: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    )
