"""Result lines: what a run said, case by case, as JSON lines.

Two published shapes, one object a line:

- per policy: `{"id", "model_name", "violated_rules", "refused", "parse_failed"}`, and `error` in
  place of an answer;
- per rule: `{"kind": "judgment", "cid", "rule", "pred", "refused"}`, followed by
  `{"kind": "summary"}` lines, which say nothing new and are skipped.

Ours are the same with more keys: `state`, `strict`, `note`, `unknown_rules`, `score`, and a line
`{"kind": "header"}` that says which run it was. Inspect logs are read into the same lines.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from safepyramid.errors import DataError
from safepyramid.results.lines import (
    check_header,
    from_judgment,
    from_prediction,
    read_lines,
    to_judgment,
    to_prediction,
    write_lines,
)
from safepyramid.schema import PROTOCOLS, Case, Judgment, Prediction, Protocol, RuleType, State

__all__ = [
    "Results",
    "aggregate",
    "fit_to_cases",
    "read_results",
    "results_from_lines",
    "write_judgments",
    "write_lines",
    "write_results",
]

_KINDS = "header, judgment, summary, or no kind for a per-policy line with an id"


@dataclass(frozen=True, slots=True)
class Results:
    """What the result files of one run say."""

    protocol: Protocol
    model: str
    """The model's name; several, joined by commas, where the files name several; else empty."""
    predictions: Mapping[str, Prediction]
    """Case id -> prediction, for the cases that have a line."""
    headers: tuple[Mapping[str, Any], ...] = ()
    """The header lines, in order."""
    header_files: tuple[str, ...] = field(default=(), compare=False)
    """The file of each header; empty where lines came without a file."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one line each."""


@dataclass(slots=True)
class _Run:
    """What has been read so far."""

    protocol: Protocol | None = None
    first: str = ""
    """Where the protocol was first seen."""
    models: dict[str, None] = field(default_factory=dict)
    headers: list[Mapping[str, Any]] = field(default_factory=list)
    file: str = ""
    """What is being read."""
    header_files: list[str] = field(default_factory=list)
    cases: dict[str, Prediction | dict[int, Judgment]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def set_protocol(self, protocol: Protocol, where: str) -> None:
        if self.protocol is None:
            self.protocol, self.first = protocol, where
        elif self.protocol != protocol:
            raise DataError(
                f"{where} is {protocol}, but {self.first} is {self.protocol}: "
                "score one protocol at a time"
            )


def read_results(paths: Iterable[str | Path]) -> Results:
    """Read the result files of one run.

    Later files override earlier ones for the same case (a judgment for the same case and rule), and
    so do later lines. A last line that was cut by a kill is left out and named in the notes.

    Args:
        paths: Result lines and Inspect logs (`.eval`, or `.json` logs), of one protocol.

    Raises:
        DataError: A file is no result file, a line in it is broken, or the protocols differ.
    """
    run = _Run()
    for path in paths:
        run.file = str(path)
        _take_lines(run, read_lines(path, run.notes))
    return _results(run)


def results_from_lines(lines: Iterable[Mapping[str, Any]]) -> Results:
    """As `read_results`, from lines that are already read.

    Raises:
        DataError: A line is broken, or there is none.
    """
    run = _Run()
    _take_lines(run, ((f"line {number}", line) for number, line in enumerate(lines, 1)))
    return _results(run)


def _take_lines(run: _Run, lines: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    stated: Protocol | None = None
    for where, line in lines:
        kind = line.get("kind")
        if kind == "header":
            stated = _take_header(run, line, where)
        elif kind == "judgment":
            _take_judgment(run, line, where)
        elif kind is None and "id" in line:
            # In a per-rule log a case that failed as a whole has a line of this shape.
            _take_prediction(run, line, where, stated or "per_policy")
        elif kind != "summary":
            raise DataError(f"{where}: unknown kind {kind!r}; known: {_KINDS}")


def _results(run: _Run) -> Results:
    if run.protocol is None:
        raise DataError("no results: give at least one file with result lines or an Inspect log")
    return Results(
        protocol=run.protocol,
        model=", ".join(run.models),
        predictions={
            case_id: said if isinstance(said, Prediction) else _from_judgments(case_id, said)
            for case_id, said in run.cases.items()
        },
        headers=tuple(run.headers),
        header_files=tuple(run.header_files),
        notes=(*run.notes, *_mixture(run)),
    )


def _mixture(run: _Run) -> list[str]:
    notes = []
    if len(run.models) > 1:
        notes.append(f"the files hold results of several models: {', '.join(run.models)}")
    for key in ("guard", "prompts_hash", "data_hash"):
        values = {str(header[key]) for header in run.headers if header.get(key) is not None}
        if len(values) > 1:
            notes.append(f"the files differ in {key}: {', '.join(sorted(values))}")
    return notes


def _take_header(run: _Run, line: Mapping[str, Any], where: str) -> Protocol | None:
    check_header(line, where)
    protocol: Protocol | None = line.get("protocol")
    if protocol not in (None, *PROTOCOLS):
        raise DataError(f"{where}: protocol {protocol!r}; allowed: {', '.join(PROTOCOLS)}")
    if protocol is not None:
        run.set_protocol(protocol, where)
    if line.get("model"):
        run.models[str(line["model"])] = None
    run.headers.append(line)
    run.header_files.append(run.file)
    return protocol


def _take_prediction(run: _Run, line: Mapping[str, Any], where: str, protocol: Protocol) -> None:
    run.set_protocol(protocol, where)
    if line.get("model_name"):
        run.models[str(line["model_name"])] = None
    prediction = to_prediction(line, where)
    run.cases[prediction.case_id] = prediction


def _take_judgment(run: _Run, line: Mapping[str, Any], where: str) -> None:
    run.set_protocol("per_rule", where)
    case_id, judgment = to_judgment(line, where)
    judged = run.cases.get(case_id)
    if not isinstance(judged, dict):
        judged = run.cases[case_id] = {}
    judged[judgment.rule] = judgment


def aggregate(case: Case, judgments: Iterable[Judgment]) -> Prediction:
    """Turn a case's judgments into its predicted set.

    A rule that was judged violated is in the set; a verdict that was not answered flags nothing. The
    case is answered when at least one verdict is; else its state is the most frequent one among the
    verdicts, and `missing` without any. Conditionals are never targets: judgments on them are left
    out. A number that the case does not have stays in, as a false positive.
    """
    types = case.rule_types
    kept = {j.rule: j for j in judgments if types.get(j.rule) is not RuleType.CONDITIONAL}
    prediction = _from_judgments(case.id, kept)
    unknown = (prediction.violated or frozenset()) - types.keys()
    return replace(prediction, unknown_rules=frozenset(unknown))


def _from_judgments(case_id: str, judged: Mapping[int, Judgment]) -> Prediction:
    verdicts = [judgment.verdict for judgment in judged.values()]
    states = Counter(verdict.state for verdict in verdicts)
    answered = states.pop(State.ANSWERED, 0)
    violated = None
    if answered:
        state = State.ANSWERED
        violated = frozenset(rule for rule, j in judged.items() if j.verdict.violated)
    else:
        state = max(State, key=lambda each: states[each]) if states else State.MISSING
    failed = ", ".join(f"{states[each]} {each}" for each in State if states[each])
    return Prediction(
        case_id,
        state,
        violated,
        strict=all(verdict.strict for verdict in verdicts if verdict.state is State.ANSWERED),
        note=f"{len(verdicts) - answered} of {len(verdicts)} verdicts: {failed}" if failed else "",
        judgments=tuple(judged[rule] for rule in sorted(judged)),
    )


def fit_to_cases(
    results: Results, cases: Sequence[Case], *, known: Iterable[str] | None = None
) -> Results:
    """Line results up with the cases they are scored on.

    Args:
        results: As read.
        cases: The cases to score.
        known: Ids that may have results without being scored, as where `cases` is a filtered part of a
            dataset. The cases' own by default.

    Returns:
        Results with exactly one prediction per case, in the cases' order. A case without a line is
        `missing`. Judgments are aggregated with the rules' types known: those on conditionals are
        left out. The notes say how many cases and judgments were missing or left out.

    Raises:
        DataError: There are results for cases that the dataset does not have.
    """
    ids = {case.id for case in cases} | set(known or ())
    strangers = [case_id for case_id in results.predictions if case_id not in ids]
    if strangers:
        raise DataError(_strangers(strangers, sorted(ids)))
    fitted = {}
    for case in cases:
        said = results.predictions.get(case.id)
        if said is None:
            said = Prediction(case.id, State.MISSING)
        elif said.judgments:
            said = aggregate(case, said.judgments)
        fitted[case.id] = said
    notes = (*results.notes, *_gaps(results, cases, fitted))
    return replace(results, predictions=fitted, notes=notes)


def _strangers(strangers: Sequence[str], ids: Sequence[str]) -> str:
    named = []
    for stranger in strangers[:3]:
        near = get_close_matches(stranger, ids, n=1)
        named.append(f"{stranger} (nearest: {near[0]})" if near else stranger)
    more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
    return (
        f"results for cases that the dataset does not have: {', '.join(named)}{more}; "
        "score them on the dataset that they were made with"
    )


def _gaps(
    results: Results, cases: Sequence[Case], fitted: Mapping[str, Prediction]
) -> Iterable[str]:
    missing = [case_id for case_id, said in fitted.items() if said.state is State.MISSING]
    if missing:
        yield f"{len(missing)} of {len(cases)} cases have no result (first: {missing[0]})"
    if results.protocol != "per_rule":
        return
    unjudged, conditionals, unknown = list[str](), list[str](), list[str]()
    for case in cases:
        said = results.predictions.get(case.id)
        if said is None or not said.judgments:
            continue
        types = case.rule_types
        judged = {judgment.rule for judgment in said.judgments}
        targets = {rule for rule, kind in types.items() if kind is not RuleType.CONDITIONAL}
        unjudged += [f"{case.id} rule {rule}" for rule in sorted(targets - judged)]
        unknown += [f"{case.id} rule {rule}" for rule in sorted(judged - types.keys())]
        rest = (judged & types.keys()) - targets
        conditionals += [f"{case.id} rule {rule}" for rule in sorted(rest)]
    for found, what in (
        (unjudged, "missing judgments: taken as not violated"),
        (conditionals, "judgments on conditionals, which are never targets: left out"),
        (unknown, "judgments on rules that the case does not have: errors where violated"),
    ):
        if found:
            yield f"{len(found)} {what} (first: {found[0]})"


def write_results(
    path: str | Path,
    predictions: Iterable[Prediction],
    *,
    model: str,
    header: Mapping[str, Any] | None = None,
) -> None:
    """Write per-policy results in the published form, with our keys beside.

    The file appears whole or not at all. Cases in state `missing` get no line.

    Args:
        path: Where to; a file that is there is replaced.
        predictions: One per case, in the order of the lines.
        model: The model's name.
        header: Further keys of the header line: guard, prompts_hash, data_hash, and `dataset` and
            `selection` (level, domain, limit), which say what data that hash is of; ….
    """
    lines = [_header("per_policy", model, header)]
    lines += [from_prediction(p, model) for p in predictions if p.state is not State.MISSING]
    write_lines(path, lines)


def write_judgments(
    path: str | Path,
    predictions: Iterable[Prediction],
    *,
    model: str,
    header: Mapping[str, Any] | None = None,
) -> None:
    """Write per-rule results: a line per judgment, in the published form, with our keys beside.

    A case that has a state but no judgments, such as one that failed as a whole, gets a per-policy
    line. Otherwise as `write_results`.
    """
    lines = [_header("per_rule", model, header)]
    for prediction in predictions:
        if prediction.judgments:
            lines += [from_judgment(prediction.case_id, j) for j in prediction.judgments]
        elif prediction.state is not State.MISSING:
            lines.append(from_prediction(prediction, model))
    write_lines(path, lines)


def _header(protocol: Protocol, model: str, more: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**(more or {}), "kind": "header", "protocol": protocol, "model": model}
