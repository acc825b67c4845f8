"""The rows of a benchmark file, in whichever of its shapes it comes."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from safepyramid.errors import DataError

_AGAIN = "download it again"
_MAGIC = (
    (b"\x1f\x8b", "is gzip-compressed: unpack it first (gunzip)"),
    (b"PK\x03\x04", "is a zip archive: unpack it first (unzip)"),
    (b"BZh", "is bzip2-compressed: unpack it first (bunzip2)"),
    (b"\xfd7zXZ\x00", "is xz-compressed: unpack it first (unxz)"),
    (b"\x28\xb5\x2f\xfd", "is zstd-compressed: unpack it first (unzstd)"),
    (
        b"version https://git-lfs",
        "is a Git LFS pointer, not the data: run `git lfs pull`, or download the file itself",
    ),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
)


class Rows(NamedTuple):
    """A benchmark file, parsed and not yet checked."""

    metadata: dict[str, Any]
    """The file's own; empty if it has none."""
    rows: list[Any]
    """One per case."""


def read_bytes(path: Path) -> bytes:
    """Read a file.

    Raises:
        DataError: There is none, it is a directory, or it may not be read.
    """
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        inside = sorted(entry.name for entry in path.iterdir() if entry.suffix in _SUFFIXES)
        hint = str(path / inside[0]) if inside else "its benchmark.json"
        raise DataError(f"{path} is a directory: name the file in it, e.g. {hint}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; give the path of a file") from error


_SUFFIXES = (".json", ".jsonl", ".parquet")


def parse_rows(content: bytes, name: str) -> Rows:
    """Parse the content of a benchmark file: JSON, JSON lines or Parquet, told by content.

    Args:
        content: All of its bytes.
        name: What to call it in messages.

    Raises:
        DataError: It is none of these, or damaged; the message says what it is and what to do.
    """
    if content[:4] == b"PAR1":
        return Rows({}, _parquet(content, name))
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:16]
    if not start:
        raise DataError(f"{name} is empty: {_AGAIN}")
    for magic, what in _MAGIC:
        if content.startswith(magic):
            raise DataError(f"{name} {what}")
    if start.startswith(b"<"):
        raise DataError(
            f"{name} is a web page, perhaps a login or an error: {_AGAIN}, with HF_TOKEN"
        )
    if start[:1] not in (b"{", b"["):
        _reject_text(content, name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.end == len(content):
            raise DataError(f"{name} stops in the middle of a character: {_AGAIN}") from error
        raise DataError(
            f"{name} is not UTF-8 (byte {error.start}): save it as UTF-8, or {_AGAIN}"
        ) from error
    return _unwrap(_json(text, name), name)


def _reject_text(content: bytes, name: str) -> None:
    first, _, _ = content[:2000].partition(b"\n")
    line = first.decode("utf-8", "replace").strip()
    if line.count(",") + line.count("\t") >= 2:
        raise DataError(f"{name} is a CSV table: give JSON, JSON lines or Parquet instead")
    raise DataError(
        f"{name} is neither JSON nor Parquet, it begins {line[:40]!r}: give a benchmark file"
    )


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _json_lines(text, name)
        raise DataError(f"{name} {_damage(text, error)}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} {_excess(error)}") from error


def _json_lines(text: str, name: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DataError(f"{name}, line {number}, {_damage(line, error)}") from error
            except (ValueError, RecursionError) as error:
                raise DataError(f"{name}, line {number}, {_excess(error)}") from error
    return rows


def _damage(text: str, error: json.JSONDecodeError) -> str:
    text = text.rstrip()
    if error.pos >= len(text) or not text.endswith(("}", "]")):
        return f"stops in the middle, after {len(text):,} characters: {_AGAIN}"
    return f"is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg})"


def _excess(error: Exception) -> str:
    """What is wrong with valid JSON that Python cannot hold."""
    if isinstance(error, RecursionError):
        return "is nested too deeply to be a benchmark file"
    return "holds a number with too many digits to be a benchmark file"


def _unwrap(value: Any, name: str) -> Rows:
    if isinstance(value, list):
        return Rows({}, value)
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        metadata = value.get("metadata") or {}
        if isinstance(metadata, dict):
            return Rows(metadata, value["data"])
        raise DataError(f"{name}: metadata is {type(metadata).__name__}, must be an object")
    if isinstance(value, dict) and "policy" in value:
        return Rows({}, [value])  # JSON lines with a single case.
    raise DataError(
        f'{name} holds no cases: expected {{"metadata": …, "data": […]}} or a list of cases'
    )


def _parquet(content: bytes, name: str) -> list[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        rows: list[Any] = parquet.read_table(BytesIO(content)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{name} is a damaged Parquet file ({reason}): {_AGAIN}") from error
    return rows
