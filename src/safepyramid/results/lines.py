"""One result line: out of a file, into a value, and back. `read.py` puts them together."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safepyramid.errors import DataError
from safepyramid.schema import Judgment, Prediction, State, Verdict

_BOM = b"\xef\xbb\xbf"
_WANTED = "give result lines (one JSON object a line) or an Inspect log (.eval)"
_OTHER_FILES = (
    (rb"<", "looks like a web page, perhaps a failed download"),
    (rb"PK\x03\x04", "is a zip archive without the suffix .eval"),
    (rb"PAR1", "is a Parquet file"),
    (rb"\[", "is one JSON list"),
    (rb'\{\s*"(metadata|data)"\s*:', "is a benchmark file: it goes to --dataset"),
    (rb"[^{]", "is not JSON lines"),
)
"""How a file begins -> what it is instead of a result file. The first that fits counts."""
_LOG = re.compile(rb'\{\s*"version"\s*:[^{]*"eval"\s*:\s*\{')


def read_lines(path: str | Path, notes: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of a result file or an Inspect log, each with where it stands.

    Lines end at a line feed and nowhere else. The last line may be cut, as a kill leaves it: it is
    left out and named in `notes`.

    Args:
        path: File; `.eval` and JSON logs are read by `logs.py`, which needs Inspect.
        notes: Receives what the reader should know.

    Raises:
        DataError: The file is none of these, or a line is no JSON object.
    """
    if str(path).endswith(".eval"):
        yield from _read_log(path)
        return
    try:
        content = Path(path).read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {_WANTED}") from error
    head = content[:4096].lstrip()
    if str(path).endswith(".json") and _LOG.match(head):
        yield from _read_log(path)
        return
    if not head:
        raise DataError(f"{path} is empty; {_WANTED}")
    for pattern, what in _OTHER_FILES:
        if re.match(pattern, head):
            raise DataError(f"{path} {what}; {_WANTED}")
    yield from _json_lines(str(path), content, notes)


def _read_log(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from safepyramid.results.logs import read_log

    for number, line in enumerate(read_log(path), 1):
        yield f"{path} entry {number}", line


def _json_lines(
    path: str, content: bytes, notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = [(n, line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    for number, line in lines:
        where = f"{path} line {number}"
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number == lines[-1][0] and len(lines) > 1:
                notes.append(f"{where}: the last line is cut and was left out")
                return
            shown = line[:60].decode("utf-8", "replace")
            raise DataError(f"{where} is no JSON object: {shown!r}; {_WANTED}") from error
        if not isinstance(value, dict):
            raise DataError(f"{where} is no JSON object: {str(value)[:60]!r}; {_WANTED}")
        if "ground_truth_violations" in value and "violated_rules" not in value:
            raise DataError(f"{where} is a benchmark case, not a result; {_WANTED}")
        yield where, value


def write_lines(path: str | Path, lines: Iterable[Mapping[str, Any]]) -> int:
    """Write lines to a file that appears whole or not at all, and count them.

    Raises:
        DataError: The file cannot be written there.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"cannot write {path}: it is a folder; name a file in it")
    # Made before the file is opened, so that a fault of their source is not taken for one of the
    # file. Escaped to ASCII: a model's text may hold half a surrogate pair.
    rows = [json.dumps(line) + "\n" for line in lines]
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(rows)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}; choose another place") from error
    return len(rows)


_HEADER = {
    **dict.fromkeys(
        ("model", "guard", "harness", "prompts_hash", "data_hash", "dataset", "created"), str
    ),
    "safepyramid": str,
    "config": dict,
    "options": dict,
}
"""What the keys of a header hold, where they are there."""


def check_header(line: Mapping[str, Any], where: str) -> None:
    """Check the keys of a header that others read.

    Raises:
        DataError: One has a value that it cannot have.
    """
    for key, kind in _HEADER.items():
        value = line.get(key)
        if value is not None and not isinstance(value, kind):
            allowed = "a text" if kind is str else "an object"
            raise DataError(
                f"{where}: {key} is {str(value)[:60]!r} in a header; allowed: {allowed}, or null"
            )


def to_prediction(line: Mapping[str, Any], where: str) -> Prediction:
    """Read a per-policy line.

    Without the key `state`, an error, a refusal and an unreadable answer are told apart by the
    published keys; rules that such a line may still list do not count.

    Raises:
        DataError: A key has a value that it cannot have.
    """
    state = _state(line, where, _prediction_state)
    violated = None
    if state is State.ANSWERED:
        violated = _rule_numbers(line.get("violated_rules"), f"{where}: violated_rules")
    return Prediction(
        str(line["id"]),
        state,
        violated,
        _rule_numbers(line.get("unknown_rules", []), f"{where}: unknown_rules"),
        bool(line.get("strict", True)),
        str(line.get("note", line.get("error")) or ""),
    )


def _prediction_state(line: Mapping[str, Any]) -> State:
    if line.get("error"):
        return State.ERROR
    if line.get("refused"):
        return State.REFUSED
    if line.get("parse_failed") or line.get("violated_rules") is None:
        return State.UNPARSED
    return State.ANSWERED


def from_prediction(prediction: Prediction, model: str) -> dict[str, Any]:
    """Write a per-policy line: the published keys, then ours."""
    state = prediction.state
    return {
        "id": prediction.case_id,
        "model_name": model,
        "violated_rules": None if prediction.violated is None else sorted(prediction.violated),
        "refused": state in (State.REFUSED, State.BLOCKED),
        "parse_failed": state in (State.UNPARSED, State.TRUNCATED),
        **({"error": prediction.note or "error"} if state is State.ERROR else {}),
        "state": state.value,
        "unknown_rules": sorted(prediction.unknown_rules),
        "strict": prediction.strict,
        "note": prediction.note,
    }


def to_judgment(line: Mapping[str, Any], where: str) -> tuple[str, Judgment]:
    """Read a per-rule line into its case id and judgment.

    Raises:
        DataError: A key is missing or has a value that it cannot have.
    """
    if "cid" not in line or "rule" not in line:
        raise DataError(f"{where}: a judgment needs the keys cid and rule")
    (rule,) = _rule_numbers([line["rule"]], f"{where}: rule")
    state = _state(line, where, _judgment_state)
    violated = line.get("pred") if state is State.ANSWERED else None
    if state is State.ANSWERED and not isinstance(violated, bool):
        raise DataError(f"{where}: pred is {str(violated)[:60]!r}; allowed: true, false")
    verdict = Verdict(
        state,
        violated,
        bool(line.get("strict", True)),
        str(line.get("note") or ""),
        line.get("score"),
    )
    return str(line["cid"]), Judgment(rule, verdict)


def _judgment_state(line: Mapping[str, Any]) -> State:
    # The published harness calls a verdict refused also when it could not read it.
    if line.get("source") == "unrecognized":
        return State.UNPARSED
    if line.get("source") == "no_result":
        return State.ERROR
    if line.get("refused"):
        return State.REFUSED
    return State.UNPARSED if line.get("pred") is None else State.ANSWERED


def from_judgment(case_id: str, judgment: Judgment) -> dict[str, Any]:
    """Write a per-rule line: the published keys, then ours."""
    verdict = judgment.verdict
    return {
        "kind": "judgment",
        "cid": case_id,
        "rule": judgment.rule,
        # The published form has no third value: `refused` tells its readers to pass over it.
        "pred": bool(verdict.violated),
        "refused": verdict.state is not State.ANSWERED,
        "state": verdict.state.value,
        "strict": verdict.strict,
        "note": verdict.note,
        **({} if verdict.score is None else {"score": verdict.score}),
    }


def _state(
    line: Mapping[str, Any], where: str, infer: Callable[[Mapping[str, Any]], State]
) -> State:
    name = line.get("state")
    if name is None:
        return infer(line)
    if name not in list(State):
        raise DataError(f"{where}: state {name!r}; allowed: {', '.join(State)}")
    return State(name)


def _rule_numbers(values: Any, where: str) -> frozenset[int]:
    numbers = values if isinstance(values, list) else [None]
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise DataError(f"{where} is {str(values)[:60]!r}; allowed: whole numbers")
    return frozenset(numbers)
