"""Runs without a live connection: requests are written to files, results read back from files.

The request files are in OpenAI's batch form, which batch services and vLLM's `run-batch` take as
they are and Ray Data reads as rows. Beside them lies a run file that says which data, guard and
settings they were made with; `batch_results.py` reads results against it. Requests are rendered
one at a time: memory does not grow with their number.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from safepyramid.check import require_clean
from safepyramid.dataset import data_hash, load_benchmark
from safepyramid.errors import DataError, RunError
from safepyramid.guards import check_protocol, load_guard
from safepyramid.guards.base import Guard, Prompt, RuleQuestion
from safepyramid.prompts.render import prompts_hash
from safepyramid.schema import Case, Protocol

Questions = Callable[[Case], Sequence[RuleQuestion]]
"""How a case is taken apart into the judgments of the per-rule protocol."""

RUN_SUFFIX = ".run.json"

_BODY_NAMES = {
    **{name: name for name in ("temperature", "top_p", "seed", "frequency_penalty")},
    **{name: name for name in ("presence_penalty", "max_tokens", "logprobs", "top_logprobs")},
    "stop_seqs": "stop",
    "reasoning_effort": "reasoning_effort",
}
"""Generation setting -> its name in a request body."""
_TRANSPORT = frozenset(
    ("max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections")
)
_NEWER_LIMIT = re.compile(r"(?:o\d|gpt-5)")
"""OpenAI's models that know the output limit under its newer name only."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What request files were made from: enough to make them again."""

    model: str
    """The model's name as the server knows it."""
    protocol: Protocol = "per_policy"
    guard: str = "chat"
    prompts: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    structured: bool = False
    """Whether answers are asked for in a JSON form that the server enforces."""
    dataset: str = "sample"
    level: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    limit: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Generation settings, by Inspect's names; they win over the guard's own."""
    data_hash: str = ""
    prompts_hash: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """A run with its data and guard loaded."""

    run: BatchRun
    guard: Guard
    cases: Sequence[Case]
    config: Mapping[str, Any]
    """The guard's settings with the run's own over them."""


def open_batch(run: BatchRun) -> Batch:
    """Load what a run names, and check that it is what the run was made with.

    Raises:
        SafepyramidError: A part is missing or unfit, or data or prompts differ from the run's.
    """
    guard = load_guard(run.guard, run.prompts, run.options, structured=run.structured)
    check_protocol(guard, run.protocol)
    if guard.predict is not None:
        raise RunError(f"guard {guard.name!r} calls no model: run it with `safepyramid eval`")
    _, cases = load_benchmark(
        run.dataset, level=run.level or None, domain=run.domain or None, limit=run.limit
    )
    require_clean(cases)
    for name, was, now in (
        ("data", run.data_hash, data_hash(cases)),
        ("prompts", run.prompts_hash, prompts_hash(guard.prompts)),
    ):
        if was and was != now:
            raise RunError(
                f"the {name} differ from what the requests were made with ({was[:12]} then, "
                f"{now[:12]} now): restore them, or write the requests anew"
            )
    adapter = guard.per_policy if run.protocol == "per_policy" else guard.per_rule
    own = {name: value for name, value in run.config.items() if value is not None}
    return Batch(run, guard, cases, {**(adapter.config if adapter else {}), **own})


def read_run(path: str | Path) -> BatchRun:
    """Read a run file.

    Raises:
        DataError: It is missing or no run file.
    """
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        return BatchRun(
            **{each.name: given[each.name] for each in fields(BatchRun) if each.name in given}
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is no run file ({type(error).__name__}): give the file *{RUN_SUFFIX} that "
            "`batch write` made"
        ) from error


def custom_id(case_id: str, rule: int | None = None) -> str:
    """The id of a request: the case's id, and `_r7` for a judgment on Rule 7.

    >>> custom_id("crit-001-l1", 7)
    'crit-001-l1_r7'
    """
    return case_id if rule is None else f"{case_id}_r{rule}"


def split_id(name: str, protocol: Protocol) -> tuple[str, int | None]:
    """The case and rule of a request's id.

    Returns:
        The rule is None under the per-policy protocol, and where the id names none.

    >>> split_id("crit-001-l1_r7", "per_rule")
    ('crit-001-l1', 7)
    """
    case_id, mark, digits = name.rpartition("_r")
    if protocol == "per_policy" or not mark or not digits.isdecimal():
        return name, None
    return case_id, int(digits)


def requests(
    batch: Batch, questions: Questions, done: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """The requests of a run, in the order of the cases, each made when it is asked for.

    Args:
        batch: The run.
        questions: As for `plan_run`.
        done: Ids that are left out, because they have a result.
    """
    for name, prompt in _prompts(batch, questions):
        if name not in done:
            yield {
                "custom_id": name,
                "method": "POST",
                "url": "/v1/completions" if prompt.raw else "/v1/chat/completions",
                "body": {"model": batch.run.model, **_asked(prompt), **_settings(batch, prompt)},
            }


def _prompts(batch: Batch, questions: Questions) -> Iterator[tuple[str, Prompt]]:
    policy, rule = batch.guard.per_policy, batch.guard.per_rule
    for case in batch.cases:
        if batch.run.protocol == "per_policy":
            assert policy is not None
            yield custom_id(case.id), policy.render(case)
        else:
            assert rule is not None
            for question in questions(case):
                yield custom_id(case.id, question.target.number), rule.render(question)


def _asked(prompt: Prompt) -> dict[str, Any]:
    if prompt.raw:
        (message,) = prompt.messages
        return {"prompt": message.text}
    asked: dict[str, Any] = {
        "messages": [{"role": each.role, "content": each.text} for each in prompt.messages]
    }
    if prompt.template_args:
        asked["chat_template_kwargs"] = dict(prompt.template_args)
    if prompt.schema is not None:
        form = {"name": "answer", "schema": prompt.schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": form}
    return asked


def _settings(batch: Batch, prompt: Prompt) -> dict[str, Any]:
    given = {k: v for k, v in batch.config.items() if v is not None and k not in _TRANSPORT}
    extra = dict(given.pop("extra_body", None) or {})
    unknown = sorted(given.keys() - _BODY_NAMES.keys())
    if unknown:
        raise RunError(
            f"setting {unknown[0]!r} has no place in a request file; allowed: extra_body, "
            f"{', '.join(_BODY_NAMES)}"
        )
    settings = {_BODY_NAMES[name]: value for name, value in given.items()}
    if prompt.raw and settings.pop("logprobs", False):
        settings["logprobs"] = settings.pop("top_logprobs", 1)
    if "max_tokens" in settings and _NEWER_LIMIT.match(batch.run.model):
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    return {**extra, **settings}


def write_batch(
    path: str | Path,
    batch: Batch,
    questions: Questions,
    *,
    max_requests: int | None = None,
    max_bytes: int | None = None,
    done: Collection[str] = (),
) -> tuple[int, list[Path]]:
    """Write the request files of a run, and the run file beside them.

    Args:
        path: The request file. With a limit: `requests.jsonl` becomes `requests-001.jsonl` and on.
        batch: The run.
        questions: As for `plan_run`.
        max_requests: Most requests in a file.
        max_bytes: Largest size of a file.
        done: Ids that are left out, because they have a result.

    Returns:
        How many requests there are, and the request files. A file appears when it is whole.
    """
    path = Path(path)
    split = max_requests is not None or max_bytes is not None
    written: list[Path] = []
    total = count = size = 0
    file = None
    try:
        for request in requests(batch, questions, done):
            line = json.dumps(request).encode("ascii") + b"\n"
            full = count == max_requests or (max_bytes is not None and size + len(line) > max_bytes)
            if file is not None and full:
                _finish(file, written[-1])
                file = None
            if file is None:
                number = f"-{len(written) + 1:03d}" if split else ""
                written.append(path.with_name(f"{path.stem}{number}{path.suffix}"))
                file, count, size = _part(written[-1]).open("wb"), 0, 0
            file.write(line)
            total, count, size = total + 1, count + 1, size + len(line)
        if file is not None:
            _finish(file, written[-1])
            file = None
        _write_run(path, batch)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose another place") from error
    finally:
        if file is not None:
            file.close()
            _part(written[-1]).unlink(missing_ok=True)
    return total, written


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _finish(file: Any, path: Path) -> None:
    file.close()
    _part(path).replace(path)


def _write_run(path: Path, batch: Batch) -> None:
    run = asdict(batch.run)
    run |= {"data_hash": data_hash(batch.cases), "prompts_hash": prompts_hash(batch.guard.prompts)}
    path.with_name(path.name + RUN_SUFFIX).write_text(
        json.dumps(run, indent=2) + "\n", encoding="utf-8", newline="\n"
    )
