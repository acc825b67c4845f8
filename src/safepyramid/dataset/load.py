"""Benchmark files: load them, filter them, write them, and tell whether two are the same."""

import gc
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from importlib.resources import files
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

from safepyramid.conversation import parse_conversation, render_conversation
from safepyramid.dataset.files import Rows, parse_rows, read_bytes
from safepyramid.dataset.hub import download, is_commit, is_dataset_id
from safepyramid.dataset.rows import Readings, case_to_dict, read_cases, read_rows
from safepyramid.dataset.select import select_cases
from safepyramid.errors import DataError
from safepyramid.schema import Case

__all__ = [
    "DATASET",
    "REVISION",
    "case_to_dict",
    "data_hash",
    "load_benchmark",
    "parse_conversation",
    "render_conversation",
    "write_benchmark",
    "write_parquet",
]

DATASET = "ByteDance/SafePyramid"
"""The published benchmark on the Hugging Face Hub."""

REVISION = "4baf426ee941ff18e48825addc052cf6453357c6"
"""The commit of `DATASET` that is loaded unless another is asked for, so that two runs read the
same bytes. Another one: `revision=…` or `organisation/name@revision`."""

FILE = "benchmark.json"
FILE_WITH_EVIDENCE = "benchmark_with_evidence.json"

SAMPLE = files("safepyramid") / "data" / "sample"
"""Where the bundled sample lies."""


class _Source(NamedTuple):
    content: bytes
    name: str
    revision: str | None
    """The full commit hash, if it is known; else what was asked for; None for a local file."""
    warning: str = ""


def load_benchmark(
    dataset: str | Path | None = None,
    *,
    level: str | int | Iterable[str | int] | None = None,
    domain: str | Iterable[str] | None = None,
    limit: int | None = None,
    evidence: bool = False,
    revision: str | None = None,
    ids: str | Iterable[str] | None = None,
) -> tuple[dict[str, Any], list[Case]]:
    """Load a benchmark file.

    Filters that take several values take a sequence or one text with commas.

    Args:
        dataset: The path of a JSON, JSON lines or Parquet file; the word `sample` for the bundled
            sample; or a dataset on the Hugging Face Hub, `organisation/name` or
            `organisation/name@revision`. The published benchmark if not given. The Hub is
            reached with HF_TOKEN, if set, and only if the file is not in the cache.
        level: Keep these levels (`L0`, `l0` or 0).
        domain: Keep these domains.
        limit: Keep the first so many cases in the order of the file, after the other filters.
        evidence: Load the validators' evidence too: from the Hub, the larger file that has it.
        revision: Commit hash, tag or branch of a dataset on the Hub.
        ids: Keep the cases of these ids.

    Returns:
        The file's own metadata, and the cases in the order of the file. The metadata's key
        `safepyramid` says where they come from: `source`, the `sha256` of the file, the
        `revision` (the commit; None for a local file), the number of `cases` returned, and a
        `warning` if the revision asked for is a name that may stand for other data tomorrow.

    Raises:
        DataError: The file cannot be had or read, holds rows that are no cases (all are listed),
            or a filter names what the file does not have or leaves nothing.
    """
    source = _read(dataset, evidence, revision)
    with collector_paused():
        metadata, rows = _rows(source)
        cases = read_cases(rows, source.name, evidence=evidence)
    selected = select_cases(cases, level=level, domain=domain, limit=limit, ids=ids)
    return {**metadata, "safepyramid": _provenance(source, len(selected))}, selected


def read_benchmark(
    dataset: str | Path | None = None, *, evidence: bool = False, revision: str | None = None
) -> tuple[dict[str, Any], Readings]:
    """As `load_benchmark`, all of a file, and without a stop at rows that are no cases.

    Raises:
        DataError: The file cannot be had or parsed, or is empty.
    """
    source = _read(dataset, evidence, revision)
    with collector_paused():
        metadata, rows = _rows(source)
        found = read_rows(rows, evidence=evidence)
    return {**metadata, "safepyramid": _provenance(source, len(found.cases))}, found


def _rows(source: _Source) -> Rows:
    parsed = parse_rows(source.content, source.name)
    if not parsed.rows:
        raise DataError(f"{source.name} holds no cases: give a file with at least one")
    return parsed


def _provenance(source: _Source, cases: int) -> dict[str, Any]:
    return {
        "source": source.name,
        "sha256": hashlib.sha256(source.content).hexdigest(),
        "revision": source.revision,
        "cases": cases,
        **({"warning": source.warning} if source.warning else {}),
    }


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let no garbage collector walk the million objects of a file over and over as they appear."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(dataset: str | Path | None, evidence: bool, revision: str | None) -> _Source:
    if dataset == "sample":
        file = SAMPLE / (FILE_WITH_EVIDENCE if evidence else FILE)
        file = file if file.is_file() else SAMPLE / FILE
        if not file.is_file():
            raise DataError(
                "the sample is missing from this installation: install safepyramid again"
            )
        return _local(file.read_bytes(), "sample", revision)
    name, at, suffix = str(dataset or DATASET).partition("@")
    path = Path(str(dataset)) if dataset is not None else None
    if path is not None and (path.exists() or not is_dataset_id(name) or path.suffix in _SUFFIXES):
        if not path.exists():
            raise DataError(
                f"no file {str(path)!r}: give the path of a benchmark file, the word sample, or a "
                f"dataset on the Hub such as {DATASET}"
            )
        return _local(read_bytes(path), str(path), revision)
    if at and revision and suffix != revision:
        raise DataError(f"two revisions for {name}, {suffix!r} and {revision!r}: give one")
    wanted = suffix or revision or (REVISION if name == DATASET else "main")
    file_name = FILE_WITH_EVIDENCE if evidence else FILE
    found = download(name, file_name, wanted)
    warning = ""
    if not is_commit(wanted):
        warning = (
            f"revision {wanted!r} is no full commit hash, so it may stand for other data later"
        )
    return _Source(read_bytes(found.path), f"{name}/{file_name}", found.commit or wanted, warning)


_SUFFIXES = (".json", ".jsonl", ".parquet")


def _local(content: bytes, name: str, revision: str | None) -> _Source:
    if revision is not None:
        raise DataError(f"{name} is a local file and has no revision {revision!r}: leave it out")
    return _Source(content, name, None)


def dataset_of(provenance: Mapping[str, Any]) -> str:
    """What `load_benchmark` takes to load the same file again.

    Args:
        provenance: The key `safepyramid` of the metadata that came with the cases.

    >>> dataset_of({"source": "acme/pyramid/benchmark.json", "revision": "0f3a"})
    'acme/pyramid@0f3a'
    """
    source: str = provenance["source"]
    revision = provenance.get("revision")
    return source if revision is None else f"{source.rpartition('/')[0]}@{revision}"


def data_hash(cases: Iterable[Case]) -> str:
    """SHA-256 of what decides results: two sets of cases with one hash are scored alike.

    Covers id, conversation, policy, ground truth, and the types and pairings of the rules, for
    each case, whatever the order of the cases. Leaves out evidence, flags and file metadata.
    """
    digests = sorted(
        hashlib.sha256(
            json.dumps(
                [
                    case.id,
                    case.conversation,
                    case.policy,
                    sorted(case.ground_truth_violations),
                    sorted((e.rule, e.type.value, sorted(e.paired_with)) for e in case.rubric),
                ],
                separators=(",", ":"),
            ).encode("ascii")
        ).digest()
        for case in cases
    )
    return hashlib.sha256(b"".join(digests)).hexdigest()


def write_benchmark(
    path: str | Path, metadata: Mapping[str, Any], cases: Iterable[Case], evidence: bool = False
) -> None:
    """Write a benchmark file in the published form, one case a line, ordered by id.

    The bytes depend on the arguments only. An existing file is replaced in one step.

    Args:
        path: The file to write.
        metadata: The file's own; the key `safepyramid`, which loading adds, is left out.
        cases: In any order.
        evidence: Whether to write the validators' evidence.
    """
    own = {key: metadata[key] for key in sorted(metadata) if key != "safepyramid"}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(_utf8(f'{{"metadata": {_line(own)},\n"data": [', path))
            comma = "\n"
            for case in sorted(cases, key=lambda case: case.id):
                line = _line(case_to_dict(case, evidence=evidence))
                file.write(_utf8(comma + line, path))
                comma = ",\n"
            file.write(b"\n]}\n")

    _replace(Path(path), write)


def write_parquet(path: str | Path, cases: Iterable[Case]) -> None:
    """Write the flat table for data viewers, ordered by id.

    `rubric` (with evidence, where the cases have it) and `failure_mode_metadata` are JSON text;
    `framework` and `conversation_id` follow from the other columns and are left out.
    """
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {name: [] for name, _ in _COLUMNS}
    for case in sorted(cases, key=lambda case: case.id):
        row = case_to_dict(case, evidence=True)
        for name, kind in _COLUMNS:
            value = _line(row[name]) if kind == "json" else row[name]
            columns[name].append(value if kind == "numbers" else _utf8(value, path))
    arrays = [
        _numbers(columns.pop(name)) if kind == "numbers" else _texts(columns.pop(name))
        for name, kind in _COLUMNS
    ]
    table = pyarrow.Table.from_arrays(arrays, names=[name for name, _ in _COLUMNS])
    _replace(Path(path), lambda temporary: parquet.write_table(table, temporary))


_COLUMNS = (
    ("id", "text"),
    ("domain", "text"),
    ("level", "text"),
    ("ground_truth_violations", "numbers"),
    ("conversation", "text"),
    ("policy", "text"),
    ("rubric", "json"),
    ("failure_mode_metadata", "json"),
)


_CHUNK = 1 << 30
"""Bytes of text in one array: offsets have 31 bits."""


def _texts(values: list[bytes]) -> Any:
    """A column of texts. `pyarrow.array` would do, and import pandas to look at what it is given."""
    import pyarrow

    chunks: list[list[bytes]] = [[]]
    size = 0
    for value in values:
        if chunks[-1] and size + len(value) > _CHUNK:
            chunks.append([])
            size = 0
        chunks[-1].append(value)
        size += len(value)
    return pyarrow.chunked_array(
        [
            pyarrow.StringArray.from_buffers(
                len(chunk), pyarrow.py_buffer(_offsets(chunk)), pyarrow.py_buffer(b"".join(chunk))
            )
            for chunk in chunks
        ]
    )


def _numbers(values: list[list[int]]) -> Any:
    """A column of lists of whole numbers."""
    import pyarrow

    flat = array("q", chain.from_iterable(values))
    items = pyarrow.Array.from_buffers(pyarrow.int64(), len(flat), [None, pyarrow.py_buffer(flat)])
    return pyarrow.Array.from_buffers(
        pyarrow.list_(pyarrow.int64()),
        len(values),
        [None, pyarrow.py_buffer(_offsets(values))],
        children=[items],
    )


def _offsets(values: Iterable[Sized]) -> "array[int]":
    return array("i", accumulate(map(len, values), initial=0))


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _utf8(text: str, path: str | Path) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 30) : error.start]
        raise DataError(
            f"cannot write {path}: half of a surrogate pair after {around!r}; remove that character"
        ) from error


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file and put it in place at once: readers never see half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}; choose another place") from error
