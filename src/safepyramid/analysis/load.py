"""Reading Inspect logs into result lines. The only file here that imports Inspect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, EvalSample, read_eval_log, read_eval_log_samples

from safepyramid.errors import DataError
from safepyramid.schema import State


def read_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """The result lines of an Inspect log: a header, then a line a case or a judgment.

    A case that ran more than once (epochs) keeps its first epoch; the header says how many there
    were. A sample that failed has state `error`; a case that never ran has no line.

    Raises:
        DataError: if the file is no log of a safepyramid task.
    """
    header = read_header(path)
    yield header_line(header)
    per_rule = _metadata(header)["protocol"] == "per_rule"
    for sample in read_eval_log_samples(str(path), all_samples_required=False):
        if sample.epoch == 1:
            yield from (_judgment_lines if per_rule else _case_lines)(sample, header.eval.model)


def read_header(path: str | Path) -> EvalLog:
    """A log's header, checked to be one of ours."""
    try:
        header = read_eval_log(str(path), header_only=True)
    except Exception as error:
        raise DataError(
            f"{path}: not readable as an Inspect log ({type(error).__name__}); give a .eval file"
        ) from error
    if "protocol" not in (header.eval.metadata or {}):
        raise DataError(f"{path}: a log of {header.eval.task!r}, not of a safepyramid task")
    return header


def header_line(log: EvalLog) -> dict[str, Any]:
    """What a log says about its run."""
    metadata = _metadata(log)
    return {
        "kind": "header",
        "model": log.eval.model,
        **{key: metadata.get(key) for key in ("protocol", "guard", "prompts_hash", "data_hash")},
        "safepyramid": metadata.get("safepyramid"),
        "task_version": log.eval.task_version,
        "created": str(log.eval.created),
        "epochs": log.eval.config.epochs or 1,
        "cases": log.eval.dataset.samples,
        "config": log.plan.config.model_dump(exclude_none=True),
    }


def _metadata(log: EvalLog) -> dict[str, Any]:
    return log.eval.metadata or {}


def _score(sample: EvalSample) -> dict[str, Any]:
    score = next(iter((sample.scores or {}).values()), None)
    if score is not None and sample.error is None:
        return dict(score.metadata or {})
    note = sample.error.message if sample.error else "no score"
    return {"state": State.ERROR.value, "note": " ".join(note.split())[:500]}


def _case_lines(sample: EvalSample, model: str) -> Iterator[dict[str, Any]]:
    score = _score(sample)
    state, predicted = score["state"], score.get("predicted")
    yield {
        "id": str(sample.id),
        "model_name": model,
        **({} if predicted is None else {"violated_rules": predicted}),
        "refused": state in (State.REFUSED, State.BLOCKED),
        "parse_failed": state in (State.UNPARSED, State.TRUNCATED),
        "state": state,
        "unknown_rules": score.get("unknown_rules", []),
        "strict": score.get("strict", False),
        "note": score.get("note", ""),
    }


def _judgment_lines(sample: EvalSample, model: str) -> Iterator[dict[str, Any]]:
    score = _score(sample)
    judgments = score.get("judgments")
    if not judgments:
        yield from _case_lines(sample, model)
        return
    for rule, verdict in judgments.items():
        yield {
            "kind": "judgment",
            "cid": str(sample.id),
            "rule": int(rule),
            "pred": bool(verdict["violated"]),
            "refused": verdict["state"] != State.ANSWERED,
            "state": verdict["state"],
            "strict": verdict["strict"],
            "note": verdict["note"],
        }
