"""The files of a batch: requests in one or more parts, and the run file beside them."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safepyramid.batch.write import Batch, BatchRun, Questions, request_ids, requests
from safepyramid.dataset.load import data_hash
from safepyramid.errors import DataError, RunError
from safepyramid.prompts.render import prompts_hash

RUN_SUFFIX = ".run.json"
MAX_SHOWN = 3
"""So many ids are named in a message; the others are counted."""


def read_run(path: str | Path) -> BatchRun:
    """Read a run file.

    Raises:
        DataError: It is missing, or no run file, or a value has a wrong type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        run = TypeAdapter(BatchRun).validate_json(Path(path).read_bytes(), strict=True)
        longest = run.config.get("max_tokens")
        if longest is not None and type(longest) is not int:
            raise ValueError(f"config.max_tokens: {longest!r} is no integer")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _no_run(path, f"{where}: {first['msg']}".removeprefix(": ")) from error
    except (OSError, ValueError) as error:
        raise _no_run(path, getattr(error, "strerror", None) or str(error)) from error
    return run


def _no_run(path: str | Path, cause: str) -> DataError:
    return DataError(
        f"{path} is no run file ({cause}): give the file *{RUN_SUFFIX} that `batch write` made"
    )


def write_batch(
    path: str | Path,
    batch: Batch,
    questions: Questions,
    *,
    max_requests: int | None = None,
    max_bytes: int | None = None,
    done: Collection[str] = (),
    force: bool = False,
) -> tuple[int, list[Path]]:
    """Write the request files of a run, and the run file beside them.

    Args:
        path: The request file. With a limit: `requests.jsonl` becomes `requests-001.jsonl` and on.
        batch: The run.
        questions: As for `plan_run`.
        max_requests: Most requests in a file.
        max_bytes: Largest size of a file.
        done: Ids that are left out, because they have a result.
        force: Replace the request files that are there; those that the new ones do not replace
            are removed. Files that hold no requests are never touched.

    Returns:
        How many requests there are, and the request files. All appear at the end, or none does.

    Raises:
        RunError: Files are in the way or cannot be written, or a request is over `max_bytes`.
        DataError: `done` has ids that the run does not ask for.
    """
    path = Path(path)
    old = _old_files(path, force)
    _require_asked(batch, questions, done)
    parts = _Parts(path, max_requests, max_bytes)
    try:
        for request in requests(batch, questions, done):
            parts.add(request)
        parts.finish()
        for file in old:
            if file not in parts.files:
                file.unlink()
        _write_run(path, batch)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose another place") from error
    finally:
        parts.clear()
    return parts.total, parts.files


class _Parts:
    """The request files of one run while they are written, each under a hidden name."""

    def __init__(self, path: Path, max_requests: int | None, max_bytes: int | None) -> None:
        self.files: list[Path] = []
        self.total = 0
        self._path, self._max_requests, self._max_bytes = path, max_requests, max_bytes
        self._is_split = max_requests is not None or max_bytes is not None
        self._file: Any = None
        self._count = self._size = 0

    def add(self, request: dict[str, Any]) -> None:
        line = json.dumps(request).encode("ascii") + b"\n"
        if self._max_bytes is not None and len(line) > self._max_bytes:
            raise RunError(
                f"request {request['custom_id']} has {len(line):,} bytes, the largest file may "
                f"have {self._max_bytes:,}: allow larger files"
            )
        if self._file is None or self._is_full(len(line)):
            self._next()
        self._file.write(line)
        self.total, self._count = self.total + 1, self._count + 1
        self._size += len(line)

    def _is_full(self, more: int) -> bool:
        too_large = self._max_bytes is not None and self._size + more > self._max_bytes
        return too_large or self._count == self._max_requests

    def _next(self) -> None:
        if self._file is not None:
            self._file.close()
        number = f"-{len(self.files) + 1:03d}" if self._is_split else ""
        self.files.append(self._path.with_name(f"{self._path.stem}{number}{self._path.suffix}"))
        self._file = _hidden(self.files[-1]).open("wb")
        self._count = self._size = 0

    def finish(self) -> None:
        """Give the files their names."""
        if self._file is not None:
            self._file.close()
        for file in self.files:
            if file.exists() and not _is_request_file(file):
                raise _not_ours(file)
        for file in self.files:
            _hidden(file).replace(file)

    def clear(self) -> None:
        """Remove what is still hidden."""
        if self._file is not None:
            self._file.close()
        for file in self.files:
            _hidden(file).unlink(missing_ok=True)


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def request_files(path: Path) -> list[Path]:
    """The files under a request file's name and the names of its parts, whatever they hold."""
    number = re.compile(rf"{re.escape(path.stem)}-\d{{3,}}{re.escape(path.suffix)}")
    try:
        beside = sorted(each for each in path.parent.iterdir() if number.fullmatch(each.name))
    except OSError:
        beside = []
    return [each for each in (path, *beside) if each.is_file()]


def _is_request_file(path: Path) -> bool:
    """Whether a file's first line is a request; so is an empty file, which holds nothing else."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        first = json.loads(line) if line else {"method": "", "body": ""}
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"method", "body"} <= first.keys()


def _not_ours(path: Path) -> RunError:
    return RunError(f"{path} holds no requests and is not replaced: choose another name")


def _old_files(path: Path, force: bool) -> list[Path]:
    """The request files of an earlier run under the same name."""
    if path.is_dir() or not path.name:
        raise RunError(f"{path} is a folder: give the name of a request file")
    found = request_files(path)
    run = path.with_name(path.name + RUN_SUFFIX)
    if path in found and not _is_request_file(path):
        raise _not_ours(path)
    ours = [file for file in found if _is_request_file(file)]
    there = [*ours, *([run] if run.exists() else [])]
    if there and not force:
        raise RunError(f"{there[0]} exists: choose another name, or replace it with --force")
    return ours


def _require_asked(batch: Batch, questions: Questions, done: Collection[str]) -> None:
    unknown = sorted(set(done).difference(request_ids(batch, questions))) if done else []
    if unknown:
        raise DataError(
            f"{len(unknown)} results that this run does not ask for: {some(unknown)}; give the "
            "results of the same data and protocol"
        )


def require_other_file(output: str | Path, run: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to write over what is read, over a run file or over its requests.

    Args:
        output: The file to be written.
        run: The run file.
        inputs: The files that are read beside it.

    Raises:
        RunError: The output is one of them, or a folder.
    """
    output, run = Path(output), Path(run)
    if output.is_dir():
        raise RunError(f"{output} is a folder: give the name of a file")
    kept = [run, *map(Path, inputs)]
    kept += request_files(run.with_name(run.name.removesuffix(RUN_SUFFIX)))
    if output.exists() and any(each.exists() and output.samefile(each) for each in kept):
        raise RunError(f"{output} is one of the files that are read: choose another output")


def predictions_path(run: str | Path) -> Path:
    """Where a run's predictions go, unless told.

    >>> predictions_path("a/requests.jsonl.run.json").as_posix()
    'a/requests.predictions.jsonl'
    """
    requests_file = Path(Path(run).name.removesuffix(RUN_SUFFIX))
    return Path(run).with_name(f"{requests_file.stem}.predictions.jsonl")


def some(names: Collection[str]) -> str:
    """The first few of many names, and how many more there are."""
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(list(names)[:MAX_SHOWN]) + more


def _write_run(path: Path, batch: Batch) -> None:
    run = asdict(batch.run)
    run |= {"data_hash": data_hash(batch.cases), "prompts_hash": prompts_hash(batch.guard.prompts)}
    path.with_name(path.name + RUN_SUFFIX).write_text(
        json.dumps(run, indent=2) + "\n", encoding="utf-8", newline="\n"
    )
