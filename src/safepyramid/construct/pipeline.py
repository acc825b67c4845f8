"""Making a run with models: calls through Inspect, kept as they come, within a budget."""

import gc
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.util import JSONSchema, json_schema
from pydantic import BaseModel

from safepyramid.answers import LENGTH_STOPS
from safepyramid.construct.costs import priced, require_prices
from safepyramid.construct.decisions import read_decisions
from safepyramid.construct.progress import Progress
from safepyramid.construct.questions import Question
from safepyramid.construct.reading import Malformed, Reading, Refused
from safepyramid.construct.records import Call, Journal, Record, RecordState, write_manifest
from safepyramid.construct.runs import (
    Run,
    make_all,
    open_run,
    run_async,
    summary,
    working_on,
)
from safepyramid.construct.settings import Role, Settings
from safepyramid.construct.work import STEPS, Outcome
from safepyramid.errors import RunError
from safepyramid.prompts.render import fill
from safepyramid.providers.calls import chat_messages, reply_of
from safepyramid.secrets import REMOVED, make_scrub, secret_values

DEFAULTS = {"max_retries": 8, "timeout": 1800, "attempt_timeout": 600}
"""How hard to knock, unless a role says otherwise."""
CONNECTIONS = 100
"""Concurrent calls of one model that Inspect's adaptive limit may reach."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What `safepyramid build run` is asked to do."""

    folder: Path
    settings: Settings | None = None
    """None goes on under the folder's own."""
    last: str = STEPS[-1]
    cost_limit: float | None = None
    """US dollars for the whole folder, what earlier runs spent included."""
    max_connections: int | None = None
    """Of each model; adaptive if not given."""
    quiet: bool = False


@dataclass
class _Caller:
    """Asks models, and remembers every answer."""

    run: Run
    journal: Journal
    models: Mapping[str, Model]
    progress: Progress
    scrub: Callable[[str], str]
    """Takes out of an error message whatever is or looks like a key."""
    secrets: Sequence[str]
    """The environment's own: taken out of replies, before anything else is done with them."""
    cost_limit: float | None
    spent: float
    stopped: str = field(default="")

    async def ask(self, question: Question) -> Record | None:
        """The remembered answer, or a new one; None once the budget is used up."""
        found = self.journal.get(question.stage, question.id, question.asked)
        if found is not None and found.state != "error":
            return found
        if self.cost_limit is not None and self.spent >= self.cost_limit:
            self.stopped = f"cost limit of ${self.cost_limit:g} reached"
            return found
        # A task of its own, so that what Inspect logs about the call is let go with it.
        records: list[Record] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._ask, question, records)
        return records[0]

    async def _ask(self, question: Question, records: list[Record]) -> None:
        record = await self._answered(question)
        self.journal.append(record)
        self.progress.recorded(record)
        records.append(record)

    async def _answered(self, question: Question) -> Record:
        """One call, and one more where the answer has a fault that can be told."""
        messages = chat_messages(question.prompt)
        calls: list[Call] = []
        first = await self._call(question, messages, calls)
        state, reason, reading = _read(question, first)
        if state == "malformed" or (reading is not None and reading.faults):
            complaint = reading.complaint() if reading is not None else f"- {reason}"
            second = await self._call(
                question,
                [
                    *messages,
                    ChatMessageAssistant(content=first.reply),
                    ChatMessageUser(content=fill(question.correction, complaint=complaint)),
                ],
                calls,
            )
            again, why, corrected = _read(question, second)
            if reading is None:
                state, reason, reading = again, why, corrected
            elif corrected is not None and len(corrected.faults) <= len(reading.faults):
                reading = corrected
        return Record(
            stage=question.stage,
            id=question.id,
            state=state,
            model=question.role.model,
            prompt=question.templates,
            asked=question.asked,
            reason=reason,
            calls=tuple(calls),
            output=None if reading is None else reading.output,
            faults={} if reading is None else dict(reading.faults),
        )

    async def _call(
        self, question: Question, messages: list[ChatMessage], calls: list[Call]
    ) -> Call:
        """Call a model; a failure is a call with an error, never a gap."""
        model, started = self.models[_key(question.role)], time.monotonic()
        try:
            output = await model.generate(
                messages,
                config=_config(question.stage, question.form)
                if question.role.structured
                else GenerateConfig(),
                cache=self.run.settings.cache,
            )
        except Exception as error:
            text = " ".join(self.scrub(str(error)).split())[-500:]
            call = Call("", "unknown", error=f"{type(error).__name__}: {text}")
        else:
            call = self._kept(question.role.model, output, time.monotonic() - started)
        self.spent += call.price or 0.0
        calls.append(call)
        return call

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                text = text.replace(secret, REMOVED)
        return text

    def _kept(self, model: str, output: ModelOutput, seconds: float) -> Call:
        reply, usage = reply_of(output), output.usage
        prompt, cached, written = None, 0, 0
        if usage is not None:
            # Providers differ in whether cached tokens are part of the input; Inspect's are not.
            cached = usage.input_tokens_cache_read or 0
            written = usage.input_tokens_cache_write or 0
            prompt = usage.input_tokens + cached + written
        remembered = any(
            isinstance(event, ModelEvent) and event.cache == "read" for event in transcript().events
        )
        price = priced(model, prompt, reply.output_tokens, cached, written)
        return Call(
            reply=self._without_secrets(reply.text),
            stop_reason=reply.stop_reason,
            input_tokens=prompt,
            output_tokens=reply.output_tokens,
            cached_tokens=None if usage is None else cached,
            price=0.0 if remembered else price,
            seconds=round(output.time or seconds, 3),
            error=self.scrub(reply.error),
            refused=reply.refused,
        )


def _read(question: Question, call: Call) -> tuple[RecordState, str, Reading | None]:
    """What a call's reply is worth: state, reason, and what was read."""
    if call.stop_reason == "content_filter":
        return "blocked", call.error or "stopped by the provider's filter", None
    if call.refused:
        return "refused", "declined, as the provider says", None
    if call.error:
        return "error", call.error, None
    try:
        return "done", "", question.read(call.reply)
    except Refused as refusal:
        return "refused", str(refusal), None
    except Malformed as fault:
        if call.stop_reason in LENGTH_STOPS:
            return "truncated", "cut by a length limit: raise max_tokens of this role", None
        return "malformed", str(fault), None


@cache
def _config(stage: str, form: type[BaseModel]) -> GenerateConfig:
    schema = _Schema(name=stage, json_schema=_plain(json_schema(form)), strict=True)
    return GenerateConfig(response_schema=schema)


class _Schema(ResponseSchema):
    def __deepcopy__(self, memo: Any = None) -> "_Schema":
        return self  # never changed, and Inspect copies the settings of every call


def _plain(schema: JSONSchema) -> JSONSchema:
    """A schema with structure only: what else a value must be is checked here, not there."""
    return JSONSchema(
        type=schema.type,
        enum=schema.enum,
        items=_plain(schema.items) if schema.items else None,
        properties={name: _plain(part) for name, part in schema.properties.items()}
        if schema.properties
        else None,
        additionalProperties=False if schema.properties else None,
        anyOf=[_plain(part) for part in schema.anyOf] if schema.anyOf else None,
        required=schema.required,
    )


def _key(role: Role) -> str:
    return role.model_dump_json()


def _models(run: Run, max_connections: int | None) -> dict[str, Model]:
    """Every model of a run, made before anything is spent."""
    return {_key(role): _model(role, max_connections) for role in run.settings.models.roles}


def _model(role: Role, max_connections: int | None) -> Model:
    given = {**DEFAULTS, **role.config}
    if max_connections is not None:
        given["max_connections"] = max_connections
    if unknown := sorted(set(given) - set(GenerateConfig.model_fields)):
        raise RunError(f"model {role.model!r}: no such generation setting: {', '.join(unknown)}")
    try:
        return get_model(
            role.model,
            config=GenerateConfig(**given),
            base_url=role.base_url,
            memoize=False,  # a client of an earlier run is bound to that run's event loop
            **role.args,
        )
    except Exception as error:
        # Inspect's messages for a missing key, package or provider are sentences for people
        # with markup and line breaks; one line is enough.
        text = _MARKUP.sub("", " ".join(str(getattr(error, "message", error)).split()))
        raise RunError(f"model {role.model!r} cannot be used: {text}") from error


_MARKUP = re.compile(r"\[/?[a-z]+\]")


def build(request: BuildRequest) -> tuple[list[Outcome], str]:
    """Make a run, or go on with one.

    Returns:
        Where each conversation stands, and why the run stopped early (empty if it did not).

    Raises:
        RunError: The folder's run was begun under other conditions, another process is at work
            on it, a model cannot be used, or a cost limit cannot hold.
    """
    request.folder.mkdir(parents=True, exist_ok=True)
    with working_on(request.folder):
        return _build(request)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: thousands of waiting calls were a third of the work to walk."""
    usual = gc.get_threshold()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _build(request: BuildRequest) -> tuple[list[Outcome], str]:
    run = open_run(request.folder, request.settings, create=True)
    models = _models(run, request.max_connections)
    if request.cost_limit is not None:
        require_prices(role.model for role in run.settings.models.roles)
    write_manifest(request.folder, run.manifest)
    journal = Journal(request.folder, write=True)
    spent = sum(record.price or 0.0 for record in journal.all())
    progress = Progress(len(run.made), quiet=request.quiet, spent=spent)
    caller = _Caller(
        run=run,
        journal=journal,
        models=models,
        progress=progress,
        scrub=make_scrub(),
        secrets=secret_values(),
        cost_limit=request.cost_limit,
        spent=spent,
    )

    outcomes: dict[str, Outcome] = {}

    def finished(outcome: Outcome) -> None:
        outcomes[outcome.made.id] = summary(outcome)
        progress.finished(outcome)

    async def work() -> None:
        at_once = 2 * (request.max_connections or CONNECTIONS)
        decisions = read_decisions(request.folder)
        await make_all(run, caller.ask, decisions, finished, last=request.last, at_once=at_once)

    try:
        with progress, _rare_collections():
            run_async(work)
        return [outcomes[made.id] for made in run.made], caller.stopped
    except KeyboardInterrupt:
        raise RunError("stopped; what was finished is kept: the same command goes on") from None
    finally:
        journal.close()
