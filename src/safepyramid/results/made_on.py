"""What data results were made on, and whether it is what they are scored on.

A header says it: `data_hash`, `dataset` (what to load) and `selection` (which cases of it). Files of
others may have no header, or one without these.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.dataset.load import data_hash, load_benchmark
from safepyramid.dataset.select import select_cases
from safepyramid.errors import DataError
from safepyramid.results.read import Results
from safepyramid.schema import Case

SHOWN = 12
"""So many digits of a hash are shown."""


def data_of(
    results: Results, dataset: str | Path | None, *, other_data: bool = False
) -> tuple[list[Case], list[Case], list[str]]:
    """Load the data that results are scored on, and check that it is what they were made on.

    Args:
        results: As read.
        dataset: As for `load_benchmark`. If not given, what the headers name; the bundled sample
            where they name nothing.
        other_data: Note, and do not raise, where the data is not what results were made on.

    Returns:
        All cases of the dataset; those to score; and notes. With a dataset given, all are scored,
        else those that the headers say were asked; all, if there are results for others.

    Raises:
        DataError: The data cannot be loaded, the headers name several datasets, or the data is not
            what results were made on.
    """
    name = dataset if dataset is not None else _named(results)
    try:
        _, every = load_benchmark(name)
    except DataError as error:
        if dataset is not None:
            raise
        raise DataError(f"the data of the results cannot be had: {error}; give --dataset") from None
    notes = [
        fault
        for file, header in zip(results.header_files, results.headers, strict=True)
        if (fault := _difference(file or "a header", header, results, every, str(name)))
    ]
    if notes and not other_data:
        raise DataError(
            f"{notes[0]}; give --dataset with the data that it was made on, or --other-data to score "
            "on this all the same, as after corrections"
        )
    return every, every if dataset is not None else _asked(results, every), notes


def _named(results: Results) -> str:
    named = dict.fromkeys(str(each["dataset"]) for each in results.headers if each.get("dataset"))
    if len(named) > 1:
        raise DataError(
            f"the files were made on several datasets, {', '.join(named)}; give --dataset"
        )
    return next(iter(named), "sample")


def _difference(
    file: str, header: Mapping[str, Any], results: Results, every: Sequence[Case], name: str
) -> str:
    """How the data differs from what a file was made on; empty if it does not, or nothing is known."""
    then = header.get("data_hash")
    if not then:
        return ""
    now = [data_hash(cases) for cases in candidates(header, results, every)]
    if then in now:
        return ""
    found = f"those of {name} have {now[0][:SHOWN]}" if now else f"{name} has none of them"
    return f"{file} was made on cases with the data hash {str(then)[:SHOWN]}, but {found}"


def candidates(
    header: Mapping[str, Any], results: Results, every: Sequence[Case]
) -> list[list[Case]]:
    """The cases that a header's hash may be of: without a selection, all or those with a result."""
    if header.get("selection") is not None:
        chosen = _selected(header, every)
        return [chosen] if chosen else []
    answered = [case for case in every if case.id in results.predictions]
    return [list(every), answered]


def _selected(header: Mapping[str, Any], every: Sequence[Case]) -> list[Case]:
    chosen = header["selection"]
    if not isinstance(chosen, Mapping) or not all(_is_filter(*item) for item in chosen.items()):
        raise DataError(
            f"selection is {str(chosen)[:60]!r} in a header; allowed: an object of level and domain, "
            "each a text or a list of texts, and limit, a whole number"
        )
    try:
        return select_cases(list(every), **chosen)
    except DataError:  # it names a level or a domain that this data does not have
        return []


def _is_filter(name: str, value: object) -> bool:
    if name == "limit":
        return value is None or type(value) is int
    texts = value if isinstance(value, list) else [value]
    return name in ("level", "domain") and (
        value is None or all(isinstance(text, str) for text in texts)
    )


def _asked(results: Results, every: Sequence[Case]) -> list[Case]:
    ids = {
        case.id
        for header in results.headers
        if header.get("selection") is not None
        for case in _selected(header, every)
    }
    return list(every) if results.predictions.keys() - ids else [c for c in every if c.id in ids]
