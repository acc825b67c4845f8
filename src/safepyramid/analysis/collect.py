"""Putting runs together: Inspect logs and result files, lined up with their cases."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from safepyramid.analysis.cost import price_source
from safepyramid.analysis.lineup import CaseStore, LinedUp, Source, kept, line_up
from safepyramid.analysis.runs import (
    MAIN_ROLE,
    TOKENS,
    Origin,
    Run,
    Runs,
    Usage,
    name_runs,
    plain_text,
    total,
)
from safepyramid.errors import DataError
from safepyramid.results.logs import (
    finished,
    header_line,
    is_log,
    read_entries,
    read_header,
    wall_seconds,
)
from safepyramid.results.read import Results, read_results, results_from_lines
from safepyramid.runs.plan import OPERATIONAL
from safepyramid.schema import Case

NO_MODEL = "none/none"
"""What a log says of a guard that calls no model."""

NOT_MEASURED = OPERATIONAL | {"reasoning_effort"}
"""Generation settings that do not tell two runs apart: how calls are made, and the effort, which is
a column of its own."""

T = TypeVar("T")


def load_runs(
    paths: Iterable[str | Path],
    dataset: str | Path | None = None,
    *,
    level: str | Iterable[str] | None = None,
    domain: str | Iterable[str] | None = None,
    evidence: bool = False,
    keep_all: bool = False,
) -> Runs:
    """Load runs from any mix of Inspect logs, result files and folders of logs.

    Every epoch of a log is a run of its own. A file counts once, however often it is given, and so
    does an evaluation: of the logs of one that was resumed or copied, the one that got furthest. The
    truth comes from the dataset if one is given, else from the logs, which carry their cases.

    A log in a folder that cannot be used is left out and noted; a file that is named itself raises.

    Args:
        paths: Logs (`.eval`, or `.json` logs), result lines, or folders of logs.
        dataset: As for `load_benchmark`. Needed for result files, unless a log of the same data is
            among the paths, and for logs of unfinished runs.
        level: Keep these levels only.
        domain: Keep these domains only.
        evidence: Load the validators' evidence too; needs a dataset that has it.
        keep_all: Keep several logs of one evaluation, as to compare two readings of its replies.

    Raises:
        DataError: A file is no result, the cases of a run cannot be had, the dataset is not the one
            that a run was made on, or a filter leaves a run without a case.
    """
    notes: list[str] = []
    left_out: list[str] = []
    store = CaseStore(dataset, evidence)
    places = _expand(paths, notes, left_out)
    if not keep_all:
        places = _furthest(places, notes)
    sources = [
        (place, source)
        for place in places
        for source in _tried(place, left_out, _read_sources, place.path, store, notes)
    ]

    def lined(source: Source) -> list[tuple[Source, LinedUp, list[Case]]]:
        found = line_up(source, store, notes)
        return [(source, found, kept(found.cases, level, domain, source.origin.path))]

    # Logs bring the cases of result files: all are read before the first is lined up.
    members = [row for place, source in sources for row in _tried(place, left_out, lined, source)]
    if not members:
        raise DataError(
            left_out[0] if left_out else "no runs: give at least one Inspect log or result file"
        )
    notes += [f"left out {fault}" for fault in left_out]
    return Runs(tuple(_as_runs(members, store)), tuple(dict.fromkeys(notes)))


def _as_runs(
    members: Sequence[tuple[Source, LinedUp, list[Case]]], store: CaseStore
) -> Iterator[Run]:
    hashes = [found.other_data or store.hash_of(cases) for _, found, cases in members]
    names = name_runs([source.origin for source, _, _ in members], hashes)
    for name, (source, found, cases), hash_ in zip(names, members, hashes, strict=True):
        # What the filters took away has cost nothing and taken no time.
        usage = [source.usage.get(case.id, ()) for case in cases]
        seconds = {c.id: source.seconds[c.id] for c in cases if c.id in source.seconds}
        yield Run(
            name,
            source.origin,
            hash_,
            cases,
            {case.id: found.results.predictions[case.id] for case in cases},
            _sum_usage(source.origin, list(chain.from_iterable(usage))),
            seconds,
        )


# --- which files


class _Place(NamedTuple):
    """A file to read."""

    path: Path
    optional: bool = False
    """Found in a folder: left out if it cannot be used."""
    task: str | None = None
    """Inspect's id of the evaluation; None for what is no log."""
    created: str = ""


def _tried(
    place: _Place, left_out: list[str], function: Callable[..., Iterable[T]], *arguments: Any
) -> list[T]:
    """What a step makes of a file; nothing, and why, where it cannot be used and was not asked for."""
    try:
        return list(function(*arguments))
    except DataError as error:
        if not place.optional:
            raise
        left_out.append(str(error))
        return []


def _expand(paths: Iterable[str | Path], notes: list[str], left_out: list[str]) -> list[_Place]:
    found: dict[Path, _Place] = {}
    for path in map(Path, paths):
        for place in _in_folder(path, notes, left_out) if path.is_dir() else [_place(path)]:
            key = place.path.resolve()
            if key in found:
                notes.append(f"{place.path}: given more than once, counted once")
            found.setdefault(key, place)
    return list(found.values())


def _place(path: Path) -> _Place:
    if not is_log(path):
        return _Place(path)
    try:
        header = read_header(path)
    except DataError:
        return _Place(path)  # reading it says what is wrong
    return _Place(path, False, header.eval.task_id, str(header.eval.created))


def _in_folder(folder: Path, notes: list[str], left_out: list[str]) -> list[_Place]:
    found = []
    for log in sorted(folder.glob("*.eval")):
        try:
            header = read_header(log)
        except DataError as error:
            left_out.append(str(error))
            continue
        found.append(_Place(log, True, header.eval.task_id, str(header.eval.created)))
    if not found:
        raise DataError(f"{folder}: a folder without logs of safepyramid; give a log or a folder")
    return _furthest(sorted(found, key=lambda place: place.created), notes)


def _furthest(places: Sequence[_Place], notes: list[str]) -> list[_Place]:
    """Of the logs of one evaluation, the one with most finished cases; the newest of equals."""
    logs_of: dict[str, list[_Place]] = {}
    for place in places:
        if place.task is not None:
            logs_of.setdefault(place.task, []).append(place)
    behind = set()
    for logs in logs_of.values():
        if len(logs) > 1:
            done = {log: (finished(log.path), log.created, i) for i, log in enumerate(logs)}
            best = max(logs, key=done.__getitem__)
            behind |= {*logs} - {best}
            notes += [
                f"{log.path}: left out; {best.path.name} is of the same evaluation and got as far"
                for log in logs
                if log is not best
            ]
    return [place for place in places if place not in behind]


# --- reading


def _read_sources(path: Path, store: CaseStore, notes: list[str]) -> Iterator[Source]:
    if is_log(path):
        yield from _log_sources(path, store)
        return
    results = read_results([path])
    notes += [
        note if note.startswith(str(path)) else f"{path.name}: {note}" for note in results.notes
    ]
    header = results.headers[-1] if results.headers else {}
    yield Source(_origin(path, results, header), results, header, None)


def _log_sources(path: Path, store: CaseStore) -> Iterator[Source]:
    header = read_header(path)
    line = header_line(header)
    data = line["data_hash"]
    asked = tuple(map(str, header.eval.dataset.sample_ids or ()))
    entries = list(read_entries(path, header, with_cases=store.needs(data, asked)))
    store.add(data, [e.row for e in entries if e.row is not None and e.epoch == 1], str(path))
    for epoch in range(1, line["epochs"] + 1):
        ours = [entry for entry in entries if entry.epoch == epoch]
        results = results_from_lines([line, *(each for entry in ours for each in entry.lines)])
        yield Source(
            replace(_origin(path, results, line), epoch=epoch, wall_seconds=wall_seconds(header)),
            results,
            line,
            asked,
            {entry.case_id: entry.usage for entry in ours},
            {e.case_id: e.seconds for e in ours if e.seconds is not None},
        )


def _origin(path: Path, results: Results, header: Mapping[str, Any]) -> Origin:
    config = header.get("config") or {}
    settings = {
        **{name: value for name, value in config.items() if name not in NOT_MEASURED},
        **(header.get("options") or {}),
    }
    model = _text(header.get("model") or results.model)
    created = _text(header.get("created"))
    return Origin(
        path=str(path),
        protocol=results.protocol,
        guard=_text(header.get("guard")),
        model=None if model == NO_MODEL else model,
        harness=_text(header.get("harness")),
        effort=_text(config.get("reasoning_effort")),
        settings=json.dumps(settings, sort_keys=True, default=str) if settings else "",
        prompts_hash=_text(header.get("prompts_hash")),
        created=created,
        version=_text(header.get("safepyramid")),
        price_date=created[:10] if created else None,
        price_source=price_source() if created else None,
    )


def _text(value: Any) -> str | None:
    """A name out of a file; None where it says nothing."""
    return plain_text(str(value)) or None if value is not None else None


def _sum_usage(origin: Origin, found: Sequence[Usage]) -> tuple[Usage, ...]:
    if origin.model is None and is_log(origin.path) and not found:
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
