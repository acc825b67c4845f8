"""Lining results up with their cases: where the cases come from, and whether they are the right ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from safepyramid.analysis.runs import Origin, Usage, plain_text
from safepyramid.dataset.load import data_hash, load_benchmark
from safepyramid.dataset.rows import read_cases
from safepyramid.errors import DataError
from safepyramid.results.made_on import candidates
from safepyramid.results.read import Results, fit_to_cases
from safepyramid.schema import Case


@dataclass(frozen=True, slots=True)
class Source:
    """A run that has been read but not lined up with its cases."""

    origin: Origin
    results: Results
    header: Mapping[str, Any]
    """What the run says of itself; empty where it says nothing."""
    asked: tuple[str, ...] | None
    """The ids of its cases; None where a result file does not say."""
    usage: Mapping[str, tuple[Usage, ...]] = field(default_factory=dict)
    """Case id -> what was used on it."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def data_hash(self) -> str | None:
        """Of the data that the run says it was made on."""
        return self.header.get("data_hash") or None


class LinedUp(NamedTuple):
    """Results, one for each of a run's cases, and the cases."""

    results: Results
    cases: list[Case]
    other_data: str | None
    """Hash of the data that the run was made on, where nothing tells which part of the cases that is."""


class CaseStore:
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


def line_up(source: Source, store: CaseStore, notes: list[str]) -> LinedUp:
    """Find a run's cases and fit its results to them.

    Args:
        source: The run.
        store: The cases there are.
        notes: Receives what the reader should know.

    Raises:
        DataError: The cases cannot be had, or the run was made on others.
    """
    name, known = Path(source.origin.path).name, store.cases(source.data_hash)
    if not known:
        raise DataError(
            f"{source.origin.path}: a result file holds no cases; give --dataset, the data that it "
            "was made on, or a log of the same data beside it"
        )
    other = None
    if source.asked is not None:
        cases = _of_log(source.asked, source, known, store)
    else:
        cases, other = _of_file(source, known, store)
        if other:
            notes.append(
                f"{name}: made on other data or on a part of it, so it stands in a block of its own; "
                "cases without a result count as missing there"
            )
    results = fit_to_cases(replace(source.results, notes=()), cases, known=known)
    notes += [f"{name}: {note}" for note in results.notes]
    return LinedUp(results, cases, other)


def _of_log(
    asked: Sequence[str], source: Source, known: Mapping[str, Case], store: CaseStore
) -> list[Case]:
    lacking = [case_id for case_id in asked if case_id not in known]
    if lacking:
        where = "the dataset" if store.dataset is not None else "the logs that were given"
        raise DataError(
            f"{source.origin.path}: case {lacking[0]} and {len(lacking) - 1} more of its "
            f"{len(asked)} cases are not in {where}; give --dataset, the data that it was made on"
        )
    cases = [known[case_id] for case_id in asked]
    # Without a dataset, a log's own cases are its data. With one, Inspect may have asked fewer cases
    # than the task selected, which is what the hash is of.
    if store.dataset is not None and not _is_data(source, cases, known, store):
        raise _made_on_other(source, store.hash_of(cases))
    return cases


def _of_file(
    source: Source, known: Mapping[str, Case], store: CaseStore
) -> tuple[list[Case], str | None]:
    """The cases of a result file: its data if it can be found, else all; and the hash of other data."""
    every, data = list(known.values()), source.data_hash
    if data is None:
        return every, None
    for cases in candidates(source.header, source.results, every):
        if store.hash_of(cases) == data:
            return cases, None
    if (
        source.header.get("selection") is not None
        or known.keys() <= source.results.predictions.keys()
    ):
        raise _made_on_other(source, store.hash_of(every))
    # A part that the file does not name, or other data: nothing tells which.
    return every, plain_text(data)


def _is_data(
    source: Source, cases: Sequence[Case], known: Mapping[str, Case], store: CaseStore
) -> bool:
    if source.data_hash in (None, store.hash_of(cases)):
        return True
    chosen = candidates(source.header, source.results, list(known.values()))
    return any(store.hash_of(part) == source.data_hash for part in chosen)


def _made_on_other(source: Source, found: str) -> DataError:
    return DataError(
        f"{source.origin.path}: made on data {str(source.data_hash)[:8]}, but the cases in the dataset "
        f"are {found[:8]}; give the dataset that it was made on"
    )


def kept(
    cases: Sequence[Case],
    level: str | Iterable[str] | None,
    domain: str | Iterable[str] | None,
    where: str,
) -> list[Case]:
    """The cases of some levels and domains; None for all.

    Raises:
        DataError: There is none.
    """
    levels = {value.upper() for value in _values(level)}
    domains = set(_values(domain))
    found = [
        case
        for case in cases
        if (not levels or case.level.value in levels) and (not domains or case.domain in domains)
    ]
    if not found:
        present = sorted({case.level.value for case in cases} | {case.domain for case in cases})
        raise DataError(
            f"{where}: no case has {', '.join(sorted(levels | domains))}; it has {', '.join(present)}"
        )
    return found


def _values(value: str | Iterable[str] | None) -> list[str]:
    if value is None:
        return []
    parts = [value] if isinstance(value, str) else value
    return [item.strip() for part in parts for item in part.split(",") if item.strip()]
