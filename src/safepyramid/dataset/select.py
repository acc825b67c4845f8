"""Which cases of a benchmark are kept: filters by level, domain and id, and a limit."""

import difflib
from collections.abc import Collection, Iterable, Sequence

from safepyramid.dataset.rows import as_level
from safepyramid.errors import DataError
from safepyramid.schema import Case, Level


def select_cases(
    cases: list[Case],
    *,
    level: str | int | Iterable[str | int] | None = None,
    domain: str | Iterable[str] | None = None,
    limit: int | None = None,
    ids: str | Iterable[str] | None = None,
) -> list[Case]:
    """The cases that the filters of `load_benchmark` keep, in order.

    Raises:
        DataError: A filter names what the cases do not have, or leaves nothing.
    """
    levels, domains, wanted = _levels(level), _domains(domain, cases), _ids(ids, cases)
    kept = [
        case
        for case in cases
        if (levels is None or case.level in levels)
        and (domains is None or case.domain in domains)
        and (wanted is None or case.id in wanted)
    ]
    if not kept:
        chosen = {"level": levels, "domain": domains, "ids": wanted}
        shown = ", ".join(
            f"{name} {'/'.join(sorted(values))}" for name, values in chosen.items() if values
        )
        present = ", ".join(sorted({case.level for case in cases}))
        raise DataError(f"no case has {shown}; the file has levels {present}: widen the filter")
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}, must be at least 1")
    return kept[:limit]


def _values(value: str | int | Iterable[str | int]) -> list[str]:
    parts = [value] if isinstance(value, str | int) else value
    return [item.strip() for part in parts for item in str(part).split(",") if item.strip()]


def _levels(level: str | int | Iterable[str | int] | None) -> set[Level] | None:
    if level is None:
        return None
    found = {value: as_level(value) for value in _values(level)}
    _reject_unknown("level", [v for v, read in found.items() if read is None], list(Level), found)
    return {read for read in found.values() if read is not None}


def _domains(domain: str | Iterable[str] | None, cases: list[Case]) -> set[str] | None:
    if domain is None:
        return None
    known = {_plain(case.domain): case.domain for case in cases}
    found = {value: known.get(_plain(value)) for value in _values(domain)}
    unknown = [value for value, read in found.items() if read is None]
    _reject_unknown("domain", unknown, sorted(known.values()), found)
    return {read for read in found.values() if read is not None}


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _ids(ids: str | Iterable[str] | None, cases: list[Case]) -> set[str] | None:
    if ids is None:
        return None
    wanted = dict.fromkeys(_values(ids))
    known = {case.id for case in cases}
    near = (
        difflib.get_close_matches(unknown, sorted(known), n=3, cutoff=0.0)
        for unknown in wanted
        if unknown not in known
    )
    nearest = list(dict.fromkeys(name for names in near for name in names))
    _reject_unknown("case id", [v for v in wanted if v not in known], nearest, wanted)
    return set(wanted)


def _reject_unknown(
    what: str, unknown: Sequence[str], allowed: Sequence[str], given: Collection[str]
) -> None:
    if not given:
        raise DataError(f"no {what} given: name one, or leave the filter out")
    if unknown:
        word = "nearest" if what == "case id" else "allowed"
        raise DataError(f"unknown {what} {', '.join(unknown)}; {word}: {', '.join(allowed)}")
