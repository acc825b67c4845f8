"""Earlier runs of a command: which there are, how far they got, which one goes on.

Inspect recovers and resumes; here it is decided what may be resumed. A run and its resumptions
share a task id; the log that got furthest stands for them all.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_sample_summaries

from safepyramid.errors import RunError
from safepyramid.schema import Protocol


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The furthest log of an earlier run and of its resumptions."""

    log: EvalLog
    """Its header."""
    done: int
    """Cases that have a result."""
    cases: int
    """Cases that the run has in all."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the run was made under."""
        return dict((self.log.eval.metadata or {})["identity"])


def earlier_runs(
    log_dir: str, protocol: Protocol, model: str | None, task_args: Mapping[str, Any]
) -> list[EarlierRun]:
    """Runs of one command, newest first. Logs that cannot be read are left aside with a warning."""
    runs: dict[str, EarlierRun] = {}
    for info in list_eval_logs(log_dir):
        try:
            log = read_eval_log(local_path(info.name), header_only=True)
            if not (
                log.eval.task_registry_name == f"safepyramid/{protocol}"
                and log.eval.model == model
                and log.eval.task_args_passed == task_args
                and "identity" in (log.eval.metadata or {})
            ):
                continue
            found = EarlierRun(log, _cases_done(log), log.eval.dataset.samples or 0)
        except Exception as error:
            warnings.warn(f"{info.name} is left aside, it cannot be read: {error}", stacklevel=2)
            continue
        best = runs.get(log.eval.task_id)
        if best is None or (found.done, log.eval.created) > (best.done, best.log.eval.created):
            runs[log.eval.task_id] = found
    return sorted(runs.values(), key=lambda run: run.log.eval.created, reverse=True)


def _cases_done(log: EvalLog) -> int:
    return len(
        {
            sample.id
            for sample in read_eval_log_sample_summaries(local_path(log.location))
            if sample.completed and not sample.error
        }
    )


def choose(runs: Sequence[EarlierRun], identity: Mapping[str, Any]) -> EarlierRun | None:
    """The earlier run to go on with, if any.

    Raises:
        RunError: if the only unfinished ones were made under other conditions.
    """
    changes = [_changes(run.identity, identity) for run in runs]
    for run, changed in zip(runs, changes, strict=True):
        if not changed:
            return run
    for run, changed in zip(runs, changes, strict=True):
        if run.done < run.cases:
            name = changed[0]
            raise RunError(
                f"{Path(run.log.location).name} is an unfinished run of this command with other "
                f"{name}: {run.identity.get(name)!r} then, {identity.get(name)!r} now; restore "
                "them, or start anew with --fresh (the old log stays) or another --log-dir"
            )
    return None


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names under which two identities differ; a name that one lacks is None there."""
    return [name for name in {**now, **then} if then.get(name) != now.get(name)]


def local_path(location: str) -> str:
    """A log's place as a path; Inspect writes `file://` before paths without quoting them."""
    path = location.removeprefix("file://")
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path
