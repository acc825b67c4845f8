"""`safepyramid eval`: a thin front over Inspect that checks first, resumes, and shows a table.

Everything about calling models is Inspect's. This file decides which log a command belongs to,
so that the same command goes on where it stopped and never goes on over other data, prompts or
settings.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from filelock import FileLock, Timeout
from inspect_ai import eval as inspect_eval
from inspect_ai import eval_retry
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog
from inspect_ai.model import GenerateConfig, Model, ModelUsage
from pydantic import ValidationError

from safepyramid.budget import Budget
from safepyramid.dataset.check import require_clean
from safepyramid.dataset.load import data_hash, load_benchmark
from safepyramid.errors import RunError
from safepyramid.guards import files_digest, load_guard
from safepyramid.guards.base import Guard, rule_questions
from safepyramid.prices import price_of
from safepyramid.prompts.render import prompts_hash
from safepyramid.providers.calls import input_of, open_model
from safepyramid.providers.routes import MissingKey, client_args, require_route
from safepyramid.results.logs import read_log
from safepyramid.results.read import Results, results_from_lines
from safepyramid.runs.plan import OPERATIONAL, plan_run, render_plan, require_price
from safepyramid.runs.progress import shown
from safepyramid.runs.resume import EarlierRun, choose, earlier_runs, local_path
from safepyramid.runs.trial import trial
from safepyramid.schema import Case, Protocol
from safepyramid.solvers import set_budget
from safepyramid.tasks import TASK_VERSION, set_batch
from safepyramid.terminal import one_line, say

SETTINGS = frozenset(GenerateConfig.model_fields) - OPERATIONAL
"""Generation settings that change what is measured: a run is never resumed under others."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks `safepyramid eval` to do."""

    protocol: Protocol = "per_policy"
    model: str | None = None
    guard: str = "lexical"
    dataset: str = "sample"
    level: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    limit: int | None = None
    prompts: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    structured: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    """Generation settings, by Inspect's names; None values count as not given."""
    model_base_url: str | None = None
    model_args: Mapping[str, Any] = field(default_factory=dict)
    log_dir: str = "logs"
    cost_limit: float | None = None
    fresh: bool = False
    trial: bool = True
    """Try every part on one case before a run."""
    display: str = "bar"
    """`bar` is ours; any other is one of Inspect's displays."""

    @property
    def given_config(self) -> dict[str, Any]:
        """The generation settings that were given."""
        given = {name: value for name, value in self.config.items() if value is not None}
        slots = self.own_slots
        return given if slots is None else {"max_connections": slots, **given}

    @property
    def own_slots(self) -> int | None:
        """How many calls a model on this machine takes at once; None for any other."""
        provider = (self.model or "").partition("/")[0]
        if provider == "openvino":
            return 1
        return int(self.model_args.get("slots", 1)) if provider == "local" else None

    @property
    def task_args(self) -> dict[str, Any]:
        """The task's parameters, defaults left out."""
        args = {
            "dataset": self.dataset,
            "level": list(self.level),
            "domain": list(self.domain),
            "limit_cases": self.limit,
            "guard": self.guard,
            "prompts": self.prompts,
            "options": dict(self.options),
            "structured": self.structured,
        }
        return {name: value for name, value in args.items() if value not in (None, [], {}, False)}


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that has passed every check."""

    guard: Guard
    cases: list[Case]
    identity: dict[str, Any]
    """What must be equal for a log to be continued, name -> value."""
    lacking: str = ""
    """What a call still needs: a key, a package; empty unless only a plan was asked for."""


def prepare(request: Request, *, to_call: bool = True) -> Ready:
    """Check all that can be checked without a call.

    Args:
        request: What is asked for.
        to_call: Whether the model will be called; else a missing key or package is no error.

    Raises:
        SafepyramidError: for a fault in data, guard, prompts, model name, key or package.
    """
    guard = load_guard(
        request.guard, request.prompts, request.options, structured=request.structured
    )
    guard.adapter(request.protocol)
    if guard.predict is None and request.model is None:
        raise RunError(
            f"guard {guard.name!r} needs a model; give --model provider/name "
            "(for instance openai/gpt-5.5), or a guard without one: --guard lexical"
        )
    if guard.predict is not None and request.model is not None:
        raise RunError(f"guard {guard.name!r} calls no model; leave --model out")
    _, cases = load_benchmark(
        request.dataset,
        level=request.level or None,
        domain=request.domain or None,
        limit=request.limit,
    )
    require_clean(cases)
    try:
        GenerateConfig(**request.given_config)
    except ValidationError as error:
        fault = error.errors()[0]
        raise RunError(f"{fault['loc'][0]} is {fault['input']!r}: {fault['msg'].lower()}") from None
    lacking = ""
    if request.model is not None:
        require_route(request.model, raw=_sends_raw(guard, request.protocol, cases[0]))
        try:
            _model(request)
        except RunError as error:
            if to_call or not isinstance(error.__cause__, PrerequisiteError | MissingKey):
                raise
            lacking = str(error)
        if request.cost_limit is not None:
            require_price(request.model)
    return Ready(guard, cases, _identity(request, guard, cases), lacking)


def _sends_raw(guard: Guard, protocol: Protocol, case: Case) -> bool:
    """Whether the guard sends raw texts, as its first prompt shows."""
    if protocol == "per_policy":
        assert guard.per_policy is not None
        return guard.per_policy.render(case).raw
    assert guard.per_rule is not None
    return guard.per_rule.render(rule_questions(case)[0]).raw


def _model(request: Request) -> Model:
    assert request.model is not None
    return open_model(request.model, request.model_base_url, request.model_args)


def _identity(request: Request, guard: Guard, cases: list[Case]) -> dict[str, Any]:
    config = guard.settings(request.protocol, request.given_config)
    return {
        "prompts": prompts_hash(guard.prompts),
        "guard files": files_digest(request.guard, request.prompts, request.options),
        "data": data_hash(cases),
        "guard options": {**request.options, "structured": request.structured},
        "settings": {k: v for k, v in sorted(config.items()) if k in SETTINGS},
        # digests: an argument or an address may hold a secret, and this goes into the log
        "model arguments": _digest(dict(request.model_args)),
        "model address": _digest(request.model_base_url),
        "task version": TASK_VERSION,
    }


def _digest(value: Any) -> str | None:
    if not value:
        return None
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def plan_text(request: Request) -> str:
    """What the request would call and cost, as text."""
    ready = prepare(request, to_call=False)
    plan = plan_run(ready.guard, request.protocol, ready.cases, rule_questions)
    text = render_plan(plan, request.model)
    return f"{text}\nnote            {ready.lacking}" if ready.lacking else text


def run(request: Request, ready: Ready) -> tuple[EvalLog, str]:
    """Run, or go on with, an evaluation.

    Returns:
        The log, and a line that says what was done about earlier runs (may be empty).

    Raises:
        RunError: if an unfinished run of the same command was made under other conditions, or
            another process is at work on it.
    """
    lock = _lock(request)
    try:
        return _run_locked(request, ready)
    finally:
        lock.release()


def _lock(request: Request) -> FileLock:
    """Keep other processes off this command's logs. Other commands may run into the same folder."""
    folder = Path(request.log_dir)
    command = [request.protocol, request.model, request.task_args]
    lock = FileLock(folder / f".safepyramid-{_digest(command)}.lock", blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:  # before OSError, whose child it is
        raise RunError(
            f"another process is at work on this evaluation in {request.log_dir!r}; wait for it, or "
            "give another --log-dir"
        ) from None
    except OSError as error:
        raise RunError(
            f"{request.log_dir!r} cannot be written to ({error.strerror}); give another --log-dir"
        ) from None
    return lock


def _run_locked(request: Request, ready: Ready) -> tuple[EvalLog, str]:
    earlier = None
    if not request.fresh and ready.guard.predict is None:
        earlier = choose(
            earlier_runs(request.log_dir, request.protocol, request.model, request.task_args),
            ready.identity,
        )
    if earlier is None:
        _try(request, ready)
        return _watched(request, ready, None, lambda: _start(request, ready)), ""
    where = local_path(earlier.log.location)
    if earlier.done == len(ready.cases):
        return earlier.log, f"already complete, nothing was called: {where}"
    _try(request, ready)
    log = _watched(request, ready, earlier, lambda: _retry(request, earlier.log))
    return log, f"resumed {where}: at least {earlier.done} of {len(ready.cases)} cases were kept"


def _try(request: Request, ready: Ready) -> None:
    """Try every part on one case; what stands out is told on stderr before the run."""
    if request.model is None or not request.trial:
        return
    notes = anyio.run(
        trial, _model(request), ready.guard, request.protocol, ready.cases, request.given_config
    )
    for note in notes:
        say(f"trial: {one_line(note)}", err=True)


def _watched(
    request: Request, ready: Ready, earlier: EarlierRun | None, call: Callable[[], list[EvalLog]]
) -> EvalLog:
    """Run with progress and budget; say what to do after an interruption."""
    if request.cost_limit is not None and request.model is not None:
        price = _pricer(request.model)
        usage = earlier.log.stats.model_usage.values() if earlier else ()
        set_budget(Budget(request.cost_limit, spent=sum(map(price, usage))), price)
    set_batch(request.given_config.get("batch"))
    stopped = "stopped; what was finished is kept: the same command goes on from here"
    try:
        with shown(
            len(ready.cases), earlier.done if earlier else 0, quiet=request.display != "bar"
        ):
            logs = call()
    except KeyboardInterrupt:
        raise RunError(stopped) from None
    except SystemExit:
        raise RunError(
            "Inspect ended the run; give the same command with --display plain to see why"
        ) from None
    finally:
        set_budget(None)
        set_batch(None)
    if not logs or logs[0].status == "cancelled":
        raise RunError(stopped)
    log = logs[0]
    if log.status == "error" and log.error is not None:
        raise RunError(f"the run failed: {log.error.message}; log: {log.location}")
    return log


def _start(request: Request, ready: Ready) -> list[EvalLog]:
    return inspect_eval(
        f"safepyramid/{request.protocol}",
        model=request.model or "none/none",
        model_base_url=request.model_base_url,
        model_args={**client_args(request.model or ""), **request.model_args},
        task_args=request.task_args,
        metadata={"identity": ready.identity},
        log_dir=request.log_dir,
        score_display=False,
        display="none" if request.display == "bar" else request.display,  # type: ignore[arg-type]
        **request.given_config,
    )


def _retry(request: Request, earlier: EvalLog) -> list[EvalLog]:
    given = request.given_config
    # by its address: a log without its samples would be run again from the start
    return eval_retry(
        local_path(earlier.location),
        log_dir=request.log_dir,
        score_display=False,
        display="none" if request.display == "bar" else request.display,  # type: ignore[arg-type]
        max_retries=given.get("max_retries"),
        timeout=given.get("timeout"),
        attempt_timeout=given.get("attempt_timeout"),
        max_connections=given.get("max_connections"),
    )


def _pricer(model: str) -> Callable[[ModelUsage], float]:
    def price(usage: ModelUsage) -> float:
        sent, cached, written = input_of(usage)
        return price_of(model, sent, usage.output_tokens, cached, written) or 0.0

    return price


def results_of(log: EvalLog) -> Results:
    """What a run's log says, case by case."""
    return results_from_lines(read_log(log.location))
