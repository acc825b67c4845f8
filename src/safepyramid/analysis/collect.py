"""Putting runs together: Inspect logs and result files, lined up with their cases."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safepyramid.analysis.cost import price_source
from safepyramid.analysis.load import (
    finished,
    header_line,
    is_log,
    read_entries,
    read_header,
    wall_seconds,
)
from safepyramid.analysis.runs import MAIN_ROLE, TOKENS, Origin, Run, Runs, Usage, name_runs, total
from safepyramid.case_rows import read_cases
from safepyramid.dataset import data_hash, load_benchmark
from safepyramid.errors import DataError
from safepyramid.plan import OPERATIONAL
from safepyramid.results import Results, fit_to_cases, read_results, results_from_lines
from safepyramid.schema import Case

NO_MODEL = "none/none"
"""What a log says of a guard that calls no model."""

NOT_MEASURED = OPERATIONAL | {"reasoning_effort"}
"""Generation settings that do not tell two runs apart: how calls are made, and the effort, which is
a column of its own."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A run that has been read but not lined up with its cases."""

    origin: Origin
    results: Results
    data_hash: str | None
    asked: tuple[str, ...] | None
    """The ids of its cases; None where a result file does not say."""
    usage: tuple[Usage, ...] = ()
    seconds: Mapping[str, float] | None = None


def load_runs(
    paths: Iterable[str | Path],
    dataset: str | Path | None = None,
    *,
    level: str | Iterable[str] | None = None,
    domain: str | Iterable[str] | None = None,
    evidence: bool = False,
) -> Runs:
    """Load runs from any mix of Inspect logs, result files and folders of logs.

    Every epoch of a log is a run of its own. Of the logs in a folder that belong to one evaluation
    that was resumed, the one that got furthest counts. The truth comes from the dataset if one is given,
    else from the logs, which carry their cases.

    Args:
        paths: Logs (`.eval`, or `.json` logs), result lines, or folders of logs.
        dataset: As for `load_benchmark`. Needed for result files, unless a log of the same data is
            among the paths, and for logs of unfinished runs.
        level: Keep these levels only.
        domain: Keep these domains only.
        evidence: Load the validators' evidence too; needs a dataset that has it.

    Raises:
        DataError: A file is no result, the cases of a run cannot be had, the dataset is not the one
            that a run was made on, or a filter leaves a run without a case.
    """
    notes: list[str] = []
    store = _CaseStore(dataset, evidence)
    sources = [
        source for path in _expand(paths, notes) for source in _read_sources(path, store, notes)
    ]
    if not sources:
        raise DataError("no runs: give at least one Inspect log or result file")
    lined = [_line_up(source, store, notes) for source in sources]
    kept = [
        _filtered(cases, level, domain, s.origin.path)
        for s, (_, cases) in zip(sources, lined, strict=True)
    ]
    hashes = [store.hash_of(cases) for cases in kept]
    names = name_runs([source.origin for source in sources], hashes)
    members = tuple(
        Run(
            name,
            source.origin,
            hash_,
            cases,
            {case.id: results.predictions[case.id] for case in cases},
            source.usage,
            source.seconds or {},
        )
        for name, source, (results, _), cases, hash_ in zip(
            names, sources, lined, kept, hashes, strict=True
        )
    )
    return Runs(members, tuple(dict.fromkeys(notes)))


class _CaseStore:
    """The cases that runs stand on: from the dataset, or gathered from logs by data hash."""

    def __init__(self, dataset: str | Path | None, evidence: bool) -> None:
        self.dataset: dict[str, Case] | None = None
        if dataset is not None:
            _, cases = load_benchmark(dataset, evidence=evidence)
            self.dataset = {case.id: case for case in cases}
        self._of_logs: dict[str, dict[str, Case]] = {}
        self._hashes: dict[tuple[int, ...], tuple[Sequence[Case], str]] = {}

    def needs(self, data: str | None, ids: Iterable[str]) -> bool:
        """Whether some of these cases have to be read from a log."""
        known = self._of_logs.get(data or "", {})
        return self.dataset is None and any(case_id not in known for case_id in ids)

    def add(self, data: str | None, rows: Sequence[Mapping[str, Any]], where: str) -> None:
        """Keep the cases that a log carries."""
        known = self._of_logs.setdefault(data or "", {})
        new = [row for row in rows if row["id"] not in known]
        known.update((case.id, case) for case in read_cases(new, where, evidence=False))

    def cases(self, data: str | None) -> dict[str, Case]:
        """All known cases of some data, by id."""
        return self._of_logs.get(data or "", {}) if self.dataset is None else self.dataset

    def hash_of(self, cases: Sequence[Case]) -> str:
        """The data hash, computed once for the same cases."""
        key = tuple(map(id, cases))
        if key not in self._hashes:
            self._hashes[key] = cases, data_hash(cases)
        return self._hashes[key][1]


def _expand(paths: Iterable[str | Path], notes: list[str]) -> list[Path]:
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        best: dict[str, tuple[int, str, Path]] = {}
        for log in sorted(path.glob("*.eval")):
            try:
                header = read_header(log)
            except DataError as error:
                notes.append(f"left out {error}")
                continue
            done = finished(log)
            rank = (done, str(header.eval.created), log)
            best[header.eval.task_id] = max(best.get(header.eval.task_id, rank), rank)
        if not best:
            raise DataError(f"{path}: a folder without logs of safepyramid; give a log or a folder")
        found += [log for _, _, log in sorted(best.values(), key=lambda rank: rank[1:])]
    return found


def _read_sources(path: Path, store: _CaseStore, notes: list[str]) -> Iterator[_Source]:
    if is_log(path):
        yield from _log_sources(path, store)
        return
    results = read_results([path])
    notes += [f"{path.name}: {note}" for note in results.notes]
    header = results.headers[-1] if results.headers else {}
    origin = _origin(path, results, header)
    yield _Source(origin, results, header.get("data_hash"), None)


def _log_sources(path: Path, store: _CaseStore) -> Iterator[_Source]:
    header = read_header(path)
    line = header_line(header)
    data = line["data_hash"]
    asked = tuple(map(str, header.eval.dataset.sample_ids or ()))
    entries = list(read_entries(path, header, with_cases=store.needs(data, asked)))
    store.add(data, [e.row for e in entries if e.row is not None and e.epoch == 1], str(path))
    for epoch in range(1, line["epochs"] + 1):
        ours = [entry for entry in entries if entry.epoch == epoch]
        results = results_from_lines([line, *(each for entry in ours for each in entry.lines)])
        yield _Source(
            replace(_origin(path, results, line), epoch=epoch, wall_seconds=wall_seconds(header)),
            results,
            data,
            asked,
            _sum_usage(header.eval.model, [use for entry in ours for use in entry.usage]),
            {e.case_id: e.seconds for e in ours if e.seconds is not None},
        )


def _origin(path: Path, results: Results, header: Mapping[str, Any]) -> Origin:
    config = header.get("config") or {}
    settings = {
        **{name: value for name, value in config.items() if name not in NOT_MEASURED},
        **(header.get("options") or {}),
    }
    model = str(header.get("model") or results.model) or None
    created = header.get("created")
    return Origin(
        path=str(path),
        protocol=results.protocol,
        guard=header.get("guard"),
        model=None if model == NO_MODEL else model,
        harness=_text(header.get("harness")),
        effort=_text(config.get("reasoning_effort")),
        settings=json.dumps(settings, sort_keys=True, default=str) if settings else "",
        prompts_hash=header.get("prompts_hash"),
        created=created,
        version=header.get("safepyramid"),
        price_date=created[:10] if created else None,
        price_source=price_source() if created else None,
    )


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _sum_usage(model: str, found: Sequence[Usage]) -> tuple[Usage, ...]:
    if model == NO_MODEL and not found:
        nothing = dict.fromkeys(("calls", *TOKENS), 0)
        return (Usage(MAIN_ROLE, "", price=0.0, **nothing),)
    groups: dict[tuple[str, str], list[Usage]] = {}
    for use in found:
        groups.setdefault((use.role, use.model), []).append(use)
    sums = ("calls", *TOKENS, "price")
    return tuple(
        Usage(role, model, **{name: total([getattr(u, name) for u in uses]) for name in sums})
        for (role, model), uses in groups.items()
    )


def _line_up(source: _Source, store: _CaseStore, notes: list[str]) -> tuple[Results, list[Case]]:
    """The run's results, one for each of its cases, and the cases."""
    name, known = Path(source.origin.path).name, store.cases(source.data_hash)
    if not known:
        raise DataError(
            f"{source.origin.path}: a result file holds no cases; give --dataset, the data that it "
            "was made on"
        )
    asked = source.asked if source.asked is not None else _asked(source, known, store)
    lacking = [case_id for case_id in asked if case_id not in known]
    if lacking:
        where = "the dataset" if store.dataset is not None else "the logs that were given"
        raise DataError(
            f"{source.origin.path}: case {lacking[0]} and {len(lacking) - 1} more of its "
            f"{len(asked)} cases are not in {where}; give --dataset, the data that it was made on"
        )
    cases = [known[case_id] for case_id in asked]
    _check_data(source, cases, store, notes)
    results = fit_to_cases(replace(source.results, notes=()), cases, known=known)
    notes += [f"{name}: {note}" for note in results.notes]
    return results, cases


def _asked(source: _Source, known: Mapping[str, Case], store: _CaseStore) -> Sequence[str]:
    """The cases of a result file: those with a line if these are its data, else the whole dataset."""
    named = [case_id for case_id in known if case_id in source.results.predictions]
    if source.data_hash and len(named) < len(known):
        cases = [known[case_id] for case_id in named]
        if store.hash_of(cases) == source.data_hash:
            return named
    return list(known)


def _check_data(
    source: _Source, cases: Sequence[Case], store: _CaseStore, notes: list[str]
) -> None:
    if source.data_hash is None or store.hash_of(cases) == source.data_hash:
        return
    if source.asked is None:
        # A part of the data, unfinished: its hash is that of cases which the file does not name.
        notes.append(
            f"{Path(source.origin.path).name}: made on other data or on a part of it; cases without "
            "a result count as missing"
        )
        return
    raise DataError(
        f"{source.origin.path}: made on data {source.data_hash[:8]}, but its cases in the dataset "
        f"are {store.hash_of(cases)[:8]}; give the dataset that it was made on"
    )


def _filtered(
    cases: list[Case],
    level: str | Iterable[str] | None,
    domain: str | Iterable[str] | None,
    where: str,
) -> list[Case]:
    levels = {value.upper() for value in _values(level)}
    domains = set(_values(domain))
    kept = [
        case
        for case in cases
        if (not levels or case.level.value in levels) and (not domains or case.domain in domains)
    ]
    if not kept:
        present = sorted({case.level.value for case in cases} | {case.domain for case in cases})
        raise DataError(
            f"{where}: no case has {', '.join(sorted(levels | domains))}; it has {', '.join(present)}"
        )
    return kept


def _values(value: str | Iterable[str] | None) -> list[str]:
    if value is None:
        return []
    parts = [value] if isinstance(value, str) else value
    return [item.strip() for part in parts for item in part.split(",") if item.strip()]
