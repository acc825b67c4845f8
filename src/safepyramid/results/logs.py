"""Reading Inspect logs: result lines, usage, cases and replies.

The only file of the analysis that needs Inspect, which takes seconds to import: it is imported when
a log is read. `collect.load_runs` puts logs and result files together.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safepyramid.analysis.cost import price_of_calls
from safepyramid.analysis.runs import MAIN_ROLE, TOKENS, Usage
from safepyramid.dataset.load import dataset_of
from safepyramid.errors import DataError
from safepyramid.schema import State
from safepyramid.secrets import scrubbed

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalSampleSummary

_HEAVY = {"events", "messages", "attachments", "store", "output"}
"""What a sample holds besides its case and its score."""
_CHUNK = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """What a log says about one case in one epoch."""

    case_id: str
    epoch: int
    lines: tuple[dict[str, Any], ...]
    """Result lines: one for the case, or one a judgment."""
    usage: tuple[Usage, ...]
    seconds: float | None
    row: Mapping[str, Any] | None
    """The case as a row of a benchmark file; None where it was not read."""


def read_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """The result lines of an Inspect log: a header, then a line a case or a judgment.

    A case that ran more than once (epochs) keeps its first epoch; the header says how many there
    were. A sample that failed has state `error`; a case that was not asked has no line.

    Raises:
        DataError: if the file is no log of a safepyramid task.
    """
    header = read_header(path)
    yield header_line(header)
    for entry in read_entries(path, header):
        if entry.epoch == 1:
            yield from entry.lines


def is_log(path: str | Path) -> bool:
    """Whether a file is an Inspect log, by its name, or by its beginning if it is JSON."""
    path = Path(path)
    if path.suffix != ".json" or not path.is_file():
        return path.suffix == ".eval"
    with path.open("rb") as file:
        return b'"eval"' in file.read(4096)


def read_header(path: str | Path) -> "EvalLog":
    """A log's header, checked to be one of ours."""
    from inspect_ai.log import read_eval_log

    try:
        header = read_eval_log(str(path), header_only=True)
    except Exception as error:
        raise DataError(
            f"{path}: not readable as an Inspect log ({type(error).__name__}); give a .eval file"
        ) from error
    if "protocol" not in (header.eval.metadata or {}):
        raise DataError(f"{path}: a log of {header.eval.task!r}, not of a safepyramid task")
    return header


def header_line(log: "EvalLog") -> dict[str, Any]:
    """What a log says about its run."""
    metadata = _metadata(log)
    return {
        "kind": "header",
        "model": log.eval.model,
        **{key: metadata.get(key) for key in ("protocol", "guard", "prompts_hash", "data_hash")},
        "dataset": dataset_of(metadata["data_source"]) if "data_source" in metadata else None,
        "selection": {
            name: log.eval.task_args.get(key)
            for name, key in (("level", "level"), ("domain", "domain"), ("limit", "limit_cases"))
        },
        "harness": metadata.get("harness"),
        "options": log.eval.task_args.get("options") or {},
        "safepyramid": metadata.get("safepyramid"),
        "task_version": log.eval.task_version,
        "created": str(log.eval.created),
        "epochs": log.eval.config.epochs or 1,
        "cases": log.eval.dataset.samples,
        "config": log.plan.config.model_dump(exclude_none=True),
    }


def read_entries(
    path: str | Path, header: "EvalLog", *, with_cases: bool = False
) -> Iterator[Entry]:
    """What a log says, epoch by epoch, the cases in the order of the data.

    The log's summaries hold all of it but the judgments of the per-rule protocol and the cases
    themselves, and are read ten times as fast as the samples.

    Args:
        path: The log.
        header: Its header.
        with_cases: Read the cases too.
    """
    from inspect_ai.log import read_eval_log_sample_summaries, read_eval_log_samples_by_id

    per_rule = _metadata(header)["protocol"] == "per_rule"
    made = _UsageReader(header)
    order = {str(name): i for i, name in enumerate(header.eval.dataset.sample_ids or ())}
    summaries = sorted(
        (s for s in read_eval_log_sample_summaries(str(path)) if _has_ended(s)),
        key=lambda s: (s.epoch, order.get(str(s.id), len(order))),
    )
    for start in range(0, len(summaries), _CHUNK):
        chunk = summaries[start : start + _CHUNK]
        whole = [(s.id, s.epoch) for s in chunk if per_rule or with_cases or _is_cut(s)]
        samples = read_eval_log_samples_by_id(
            str(path),
            whole,
            exclude_fields=_HEAVY if with_cases else {*_HEAVY, "metadata"},
        )
        full = {(s.id, s.epoch): s for s in samples}
        for summary in chunk:
            sample = full.get((summary.id, summary.epoch))
            yield Entry(
                str(summary.id),
                summary.epoch,
                tuple(_lines(sample or summary, header.eval.model, per_rule)),
                made.usage(summary),
                summary.total_time,
                case_row(sample) if with_cases and sample is not None else None,
            )


def case_row(sample: "EvalSample") -> dict[str, Any]:
    """The case that a sample carries, as a row of a benchmark file.

    Raises:
        DataError: if it carries none, as samples of other tasks.
    """
    try:
        row: dict[str, Any] = json.loads(sample.metadata["case"][0])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"sample {sample.id} carries no case ({type(error).__name__}); give --dataset, the data "
            "that the run was made on"
        ) from error
    return row


def _has_ended(summary: "EvalSampleSummary") -> bool:
    return summary.completed or summary.error is not None or bool(summary.scores)


def _is_cut(summary: "EvalSampleSummary") -> bool:
    """Whether the summary left out a list of rules because it was very long."""
    found = (score.metadata or {} for score in (summary.scores or {}).values())
    return any(isinstance(m.get(key), str) for m in found for key in ("predicted", "unknown_rules"))


def _metadata(log: "EvalLog") -> dict[str, Any]:
    return log.eval.metadata or {}


def _score(sample: "EvalSample | EvalSampleSummary") -> dict[str, Any]:
    # the newest of ours, where an old log was scored again
    scores = reversed((sample.scores or {}).values())
    score = next((each for each in scores if "state" in (each.metadata or {})), None)
    said = dict(score.metadata or {}) if score is not None else {}
    if score is not None and (sample.error is None or said.get("state") == State.MISSING):
        return said
    note = "no score"
    if sample.error is not None:
        note = sample.error if isinstance(sample.error, str) else sample.error.message
    return {"state": State.ERROR.value, "note": scrubbed(note, 500)}


def _lines(
    sample: "EvalSample | EvalSampleSummary", model: str, per_rule: bool
) -> Iterator[dict[str, Any]]:
    score = _score(sample)
    if score["state"] == State.MISSING:
        return
    judgments = score.get("judgments") if per_rule else None
    if not judgments:
        yield _case_line(str(sample.id), score, model)
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
            **({} if verdict.get("score") is None else {"score": verdict["score"]}),
        }


def _case_line(case_id: str, score: Mapping[str, Any], model: str) -> dict[str, Any]:
    state, predicted = score["state"], score.get("predicted")
    return {
        "id": case_id,
        "model_name": model,
        **({} if predicted is None else {"violated_rules": predicted}),
        "refused": state in (State.REFUSED, State.BLOCKED),
        "parse_failed": state in (State.UNPARSED, State.TRUNCATED),
        "state": state,
        "unknown_rules": score.get("unknown_rules", []),
        "strict": score.get("strict", False),
        "note": score.get("note", ""),
    }


class _UsageReader:
    """Turns the usage of a log's samples into ours: by role, priced call by call."""

    def __init__(self, header: "EvalLog") -> None:
        self.day = str(header.eval.created)[:10]
        self.main = header.eval.model
        self.model_of: dict[str, str] = {}
        for role, config in (header.eval.model_roles or {}).items():
            first = config[0] if isinstance(config, list) else config
            self.model_of[role] = first.model

    def usage(self, sample: "EvalSampleSummary") -> tuple[Usage, ...]:
        """One entry per role and model that the sample used."""
        rest = {model: _kinds(use) for model, use in sample.model_usage.items()}
        found = []
        for role, use in sample.role_usage.items():
            model, tokens = self.model_of.get(role, self.main), _kinds(use)
            found.append(self._priced(role, model, tokens, use.total_cost, calls=None))
            if model in rest:
                rest[model] = {kind: rest[model][kind] - tokens[kind] for kind in TOKENS}
        # The turns of a sample are the calls of its main model, where it used no other.
        turns = sample.turn_count if len(rest) == 1 and not found else None
        for model, tokens in rest.items():
            if any(tokens.values()) or not found:
                cost = sample.model_usage[model].total_cost if not found else None
                found.append(self._priced(MAIN_ROLE, model, tokens, cost, calls=turns))
        return tuple(found)

    def _priced(
        self, role: str, model: str, tokens: dict[str, int], cost: float | None, calls: int | None
    ) -> Usage:
        if not any(tokens.values()):
            # A server that counts nothing has not said that nothing was used.
            unknown = dict.fromkeys(TOKENS)
            return Usage(role, model, calls, price=None, **unknown)
        if cost is None:
            cost = price_of_calls(model, tokens, max(1, calls or 1), self.day)
        return Usage(role, model, calls, price=cost, **tokens)


def _kinds(use: Any) -> dict[str, int]:
    return {
        "input_tokens": use.input_tokens,
        "cache_read_tokens": use.input_tokens_cache_read or 0,
        "cache_write_tokens": use.input_tokens_cache_write or 0,
        "output_tokens": use.output_tokens,
        "reasoning_tokens": use.reasoning_tokens or 0,
    }


def finished(path: str | Path) -> int:
    """How many samples of a log have ended without an error."""
    from inspect_ai.log import read_eval_log_sample_summaries

    return sum(s.completed and not s.error for s in read_eval_log_sample_summaries(str(path)))


def wall_seconds(header: "EvalLog") -> float | None:
    """From the start of a log to its end; None while it has none."""
    start, end = header.stats.started_at, header.stats.completed_at
    if not (start and end):
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def read_replies(path: str | Path, case_ids: Iterable[str], epoch: int = 1) -> dict[str, Any]:
    """What the model itself said on some cases of a log.

    Returns:
        Case id -> the reply's text; per rule, rule number -> the reply's text. A case without a reply
        is left out.

    Raises:
        DataError: if the file is no log of a safepyramid task.
    """
    from inspect_ai.log import read_eval_log_sample_summaries, read_eval_log_samples_by_id

    read_header(path)
    wanted = set(case_ids)
    found: dict[str, Any] = {}
    ids = [
        (summary.id, epoch)
        for summary in read_eval_log_sample_summaries(str(path))
        if str(summary.id) in wanted and summary.epoch == epoch and _has_ended(summary)
    ]
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        for sample in read_eval_log_samples_by_id(
            str(path), chunk, exclude_fields={"events", "metadata"}, resolve_attachments="core"
        ):
            said = sample.store.get("replies")
            if said:
                found[str(sample.id)] = {int(rule): reply["text"] for rule, reply in said.items()}
            elif sample.output.completion:
                found[str(sample.id)] = sample.output.completion
    return found
