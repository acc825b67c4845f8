"""What a run folder holds: one JSON-lines file a stage, one line an item, and a manifest.

A line is written when its item is done and never changed; a later line of the same id replaces
it. A line that a kill cut short is removed when the folder is opened for writing.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import SEEK_END
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

from safepyramid.errors import RunError

STAGES = ("conversation", "l0", "l1", "framework", "l2", "repair", "vote")
"""In the order of a case's life; votes and repairs belong to each level."""

MANIFEST = "manifest.json"

RecordState = Literal[
    "done", "refused", "blocked", "truncated", "malformed", "error", "unreachable", "withdrawn"
]
"""`done`: readable, perhaps in part. `error`: transport; it is asked again. `unreachable`: that
too often. `withdrawn`: set aside by a person; it is asked again. The others are answers that could
not be used."""

MAX_ERRORS = 3
"""In so many runs a question may end in an error; then it is given up."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model, as it was paid for."""

    reply: str
    stop_reason: str
    input_tokens: int | None = None
    """All prompt tokens, cached ones included; None where the provider does not say."""
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of `input_tokens` that was read from a cache."""
    price: float | None = None
    """US dollars at list price; None where it is not known."""
    seconds: float | None = None
    error: str = ""
    refused: bool = False
    """Whether the provider marks the reply as a refusal."""


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one question to one model."""

    stage: str
    id: str
    """Unique within the stage: conversation, level, attempt, round, part."""
    state: RecordState
    model: str
    prompt: str
    """Hash of the templates."""
    asked: str
    """Hash of all that was sent: a record answers this very question and no other."""
    reason: str = ""
    """Why it is not `done`."""
    calls: tuple[Call, ...] = ()
    """The call, and the correction if there was one."""
    output: Mapping[str, Any] | None = None
    """What was read."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Parts of the output that cannot be used -> why."""

    @property
    def price(self) -> float | None:
        """What all its calls cost; None if that of one is not known."""
        prices = [call.price for call in self.calls]
        return None if None in prices else sum(price for price in prices if price is not None)


def row_of(record: Record) -> dict[str, Any]:
    """A record as its line holds it."""
    row = {name: getattr(record, name) for name in Record.__slots__}
    row["calls"] = [{name: getattr(call, name) for name in Call.__slots__} for call in record.calls]
    return row


def record_from(row: Any) -> Record:
    """A record from its line.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    record = Record(**{**row, "calls": tuple(Call(**call) for call in row["calls"])})
    _require_types(record, _RECORD_TYPES)
    for call in record.calls:
        _require_types(call, _CALL_TYPES)
        for name in _AMOUNTS:
            amount = getattr(call, name)
            if amount is not None and not 0 <= amount < inf:  # NaN is neither
                raise ValueError(f"{name} is {amount}")
    if record.state not in get_args(RecordState) or record.stage not in STAGES:
        raise ValueError(f"no such state or stage: {record.state}, {record.stage}")
    if not all(isinstance(fault, str) for fault in record.faults.values()):
        raise TypeError("a fault that is no text")
    return record


_NUMBER = (int, float, type(None))
_AMOUNTS = ("input_tokens", "output_tokens", "cached_tokens", "price", "seconds")
_RECORD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("stage", "id", "state", "model", "prompt", "asked", "reason"), str),
    "output": (dict, type(None)),
    "faults": dict,
}
_CALL_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("reply", "stop_reason", "error"), str),
    **dict.fromkeys(_AMOUNTS, _NUMBER),
    "refused": bool,
}


def _require_types(value: object, types: Mapping[str, type | tuple[type, ...]]) -> None:
    for name, allowed in types.items():
        if not isinstance(getattr(value, name), allowed):
            raise TypeError(f"{name} is {getattr(value, name)!r}")


class _Place(NamedTuple):
    """Where a record lies, and what of it is kept at hand: all but replies and output."""

    record: Record
    offset: int
    length: int


class Journal:
    """The records of a run folder, and their files. What models said stays on disk.

    Args:
        folder: The run folder.
        write: Open the files for appending, and mend torn ends. Without it nothing is changed.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self._places: dict[tuple[str, str], _Place] = {}
        self._superseded: list[Record] = []
        """Records that a later one replaced: paid for, and no longer used."""
        self._errors: Counter[tuple[str, str, str]] = Counter()
        self._files: dict[str, BinaryIO] = {}
        for stage in STAGES:
            path = folder / f"{stage}.jsonl"
            if write or path.exists():
                self._files[stage] = _opened(path, "a+b" if write else "rb")
                for place in _read(self._files[stage], path, mend=write):
                    self._keep(place)

    def _keep(self, place: _Place) -> None:
        about = (place.record.stage, place.record.id)
        if about in self._places:
            self._superseded.append(self._places[about].record)
        self._places[about] = place
        if place.record.state == "error":
            self._errors[*about, place.record.asked] += 1
        elif place.record.state == "withdrawn":
            self._errors.pop((*about, place.record.asked), None)

    def get(self, stage: str, id: str, asked: str) -> Record | None:
        """The record that answers this very question, whole; None if there is none that counts."""
        found = self._places.get((stage, id))
        if found is None or found.record.asked != asked or found.record.state == "withdrawn":
            return None
        file = self._files[stage]
        file.seek(found.offset)
        record = record_from(json.loads(file.read(found.length)))
        if record.state == "error" and self._errors[stage, id, asked] >= MAX_ERRORS:
            return replace(record, state="unreachable")
        return record

    def append(self, record: Record) -> None:
        """Keep a record and write its line at once."""
        text = json.dumps(row_of(record), ensure_ascii=True, separators=(",", ":"))
        line = f"{text}\n".encode("ascii")
        file = self._files[record.stage]
        offset = file.seek(0, SEEK_END)
        file.write(line)
        file.flush()
        self._keep(_Place(_light(record), offset, len(line)))

    def all(self) -> Iterator[Record]:
        """Every record that was paid for, replaced ones included, without replies and output."""
        yield from self._superseded
        yield from self.current()

    def current(self) -> Iterator[Record]:
        """The records that count, without replies and output."""
        for place in self._places.values():
            yield place.record

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def _opened(path: Path, mode: Literal["a+b", "rb"]) -> BinaryIO:
    try:
        return path.open(mode)
    except OSError as error:
        raise RunError(f"{path} cannot be opened: {error.strerror}; mend that") from None


def _light(record: Record) -> Record:
    calls = tuple(replace(call, reply="") for call in record.calls)
    return replace(record, calls=calls, output=None)


def _read(file: BinaryIO, path: Path, *, mend: bool) -> Iterator[_Place]:
    file.seek(0)
    offset = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):  # the end of a line that a kill cut short
            if mend:
                file.truncate(offset)
            return
        try:
            record = record_from(json.loads(line))
            if record.stage != path.stem:
                raise ValueError(f"belongs to {record.stage}")
        except (ValueError, TypeError, KeyError, RecursionError):
            raise RunError(
                f"{path}, line {number} is no record; remove that line, and its item is made again"
            ) from None
        yield _Place(_light(record), offset, len(line))
        offset += len(line)


def changed(record: Record) -> RunError:
    """The error to raise where a record holds what no reply is ever read as."""
    return RunError(
        f"{record.stage}.jsonl: the record {record.id!r} does not hold what was asked for; remove "
        "its line, and it is asked again"
    )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest in one step."""
    temporary = folder / f".{MANIFEST}.tmp"
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run folder; None if it has none.

    Raises:
        RunError: There is one and it cannot be read.
    """
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is no object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{path} cannot be read ({error}); restore it, or use another folder"
        ) from None
    return found
