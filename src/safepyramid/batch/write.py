"""Runs without a live connection: requests are written to files, results read back from files.

The request files are in OpenAI's batch form, which batch services and vLLM's `run-batch` take as
they are and Ray Data reads as rows. `files.py` writes them, with a run file that says which
data, guard and settings they were made with; `results.py` reads results against it. Requests
are rendered one at a time: memory does not grow with their number.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from safepyramid.dataset.check import require_clean
from safepyramid.dataset.load import data_hash, load_benchmark
from safepyramid.errors import RunError
from safepyramid.guards import load_guard
from safepyramid.guards.base import Guard, Prompt, RuleQuestion
from safepyramid.prompts.render import prompts_hash
from safepyramid.providers.routes import DEFAULT_MAX_TOKENS
from safepyramid.schema import Case, Protocol

Questions = Callable[[Case], Sequence[RuleQuestion]]
"""How a case is taken apart into the judgments of the per-rule protocol."""

_BODY_NAMES = {
    **{name: name for name in ("temperature", "top_p", "seed", "frequency_penalty")},
    **{name: name for name in ("presence_penalty", "max_tokens", "logprobs", "top_logprobs")},
    "stop_seqs": "stop",
    "reasoning_effort": "reasoning_effort",
}
"""Generation setting -> its name in a request body."""
MAX_DIGITS = 9
"""No rule's number is longer."""
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
    guard.adapter(run.protocol)
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
    own = {name: value for name, value in run.config.items() if value is not None}
    return Batch(run, guard, cases, guard.settings(run.protocol, own))


def custom_id(case_id: str, rule: int | None = None) -> str:
    """The id of a request: the case's id, and `_r7` for a judgment on Rule 7.

    >>> custom_id("crit-001-l1", 7)
    'crit-001-l1_r7'
    """
    return case_id if rule is None else f"{case_id}_r{rule}"


def split_id(name: str, protocol: Protocol) -> tuple[str, int | None]:
    """The case and rule of a request's id.

    Returns:
        The rule is None under the per-policy protocol, and where the id is not one that
        `custom_id` makes for a rule.

    >>> split_id("crit-001-l1_r7", "per_rule")
    ('crit-001-l1', 7)
    """
    case_id, mark, digits = name.rpartition("_r")
    if protocol == "per_policy" or not mark or not digits.isdecimal() or len(digits) > MAX_DIGITS:
        return name, None
    rule = int(digits)
    return (case_id, rule) if custom_id(case_id, rule) == name else (name, None)


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


def request_ids(batch: Batch, questions: Questions) -> Iterator[str]:
    """The ids of all requests of a run, in order; nothing is rendered."""
    for case in batch.cases:
        if batch.run.protocol == "per_policy":
            yield custom_id(case.id)
        else:
            for question in questions(case):
                yield custom_id(case.id, question.target.number)


def output_limit(batch: Batch, questions: Questions) -> int | None:
    """The output limit that the run's requests name; None where they name none."""
    request = next(requests(batch, questions), None)
    body = {} if request is None else request["body"]
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    return limit if isinstance(limit, int) else None


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
    if prompt.schema is not None:
        form = {"name": "answer", "schema": prompt.schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": form}
    return asked


def _settings(batch: Batch, prompt: Prompt) -> dict[str, Any]:
    given = {k: v for k, v in batch.config.items() if v is not None and k not in _TRANSPORT}
    extra = prompt.further_keys(given.pop("extra_body", None))
    unknown = sorted(given.keys() - _BODY_NAMES.keys())
    if unknown:
        raise RunError(
            f"setting {unknown[0]!r} has no place in a request file; allowed: extra_body, "
            f"{', '.join(_BODY_NAMES)}"
        )
    settings = {_BODY_NAMES[name]: value for name, value in given.items()}
    if prompt.raw and settings.pop("logprobs", False):
        settings["logprobs"] = settings.pop("top_logprobs", 1)
    if prompt.raw:
        return {"max_tokens": DEFAULT_MAX_TOKENS, **extra, **settings}
    if "max_tokens" in settings and _NEWER_LIMIT.match(batch.run.model):
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    return {**extra, **settings}
