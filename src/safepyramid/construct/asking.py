"""Asking models: calls through Inspect, kept as they come, within a budget."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
)

from safepyramid.answers.parse import LENGTH_STOPS
from safepyramid.budget import Budget, BudgetSpent
from safepyramid.construct.costs import is_uncounted, kind_of, known_price, priced
from safepyramid.construct.models import asked_form, key_of, try_models
from safepyramid.construct.progress import Progress
from safepyramid.construct.questions import Question
from safepyramid.construct.reading import Malformed, Reading, Refused
from safepyramid.construct.records import Call, Journal, Record, RecordState
from safepyramid.construct.settings import Role
from safepyramid.errors import RunError
from safepyramid.prompts.render import fill
from safepyramid.providers.calls import chat_messages, input_of, reply_of, told
from safepyramid.secrets import make_known_scrub
from safepyramid.tokens import estimate_tokens


@dataclass
class Caller:
    """Asks models, and remembers every answer."""

    journal: Journal
    models: Mapping[str, Model]
    progress: Progress
    untried: Sequence[Role]
    """Roles whose models are tried before anything is asked."""
    budget: Budget | None
    cache: bool
    """Whether to use Inspect's cache of replies."""
    stopped: str = ""
    """Why nothing more is asked; empty as long as it is."""

    def __post_init__(self) -> None:
        self._trial = anyio.Lock()
        self._clean = make_known_scrub()
        self._set_aside = Counter(
            (record.stage, record.id, record.asked)
            for record in self.journal.all()
            if record.state == "withdrawn"
        )

    async def ask(self, question: Question) -> Record | None:
        """The remembered answer, or a new one; None once the budget is used up."""
        found = self.journal.get(question.stage, question.id, question.asked)
        if found is not None and found.state != "error":
            return found
        records: list[Record] = []
        try:
            async with self._held(question) as spend:
                await self._try_models()
                # A task of its own, so that what Inspect logs about the call is let go with it.
                async with anyio.create_task_group() as group:
                    group.start_soon(self._ask, question, records)
                spend(records[0])
        except BudgetSpent as error:
            self.stopped = str(error)
            return found
        return records[0]

    @asynccontextmanager
    async def _held(self, question: Question) -> AsyncIterator[Callable[[Record], None]]:
        """Hold a question, its correction included, to the budget."""
        if self.budget is None:
            yield lambda record: None
            return
        model = question.role.model
        tokens = sum(estimate_tokens(message.text) for message in question.prompt.messages)
        least = priced(model, tokens, 0) or 0.0
        async with self.budget.hold(kind_of(question.stage, model), least) as spend:

            def spend_on(record: Record) -> None:
                if any(map(is_uncounted, record.calls)):
                    spend(None)
                elif (price := known_price(record)) is not None:
                    spend(price)

            yield spend_on

    async def _try_models(self) -> None:
        if not self.untried:
            return
        async with self._trial:
            with self.progress.asking():
                await try_models(self.models, self.untried)
            self.untried = ()

    async def _ask(self, question: Question, records: list[Record]) -> None:
        with self.progress.asking():
            record = await self._answered(question)
        try:
            self.journal.append(record)
        except OSError as error:
            raise RunError(
                f"an answer cannot be written down ({error.strerror}); make room, and the same "
                "command goes on"
            ) from None
        self.progress.recorded(record)
        records.append(record)

    async def _answered(self, question: Question) -> Record:
        """One call, and one more where the answer has a fault that can be told."""
        messages = chat_messages(question.prompt, question.role.model)
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
        model, started = self.models[key_of(question.role)], time.monotonic()
        try:
            output = await model.generate(
                messages,
                config=asked_form(question.stage, question.form)
                if question.role.structured
                else GenerateConfig(),
                cache=self._cache(question),
            )
        except Exception as error:
            call = Call("", "unknown", error=told(error))
        else:
            call = self._kept(question.role.model, output, time.monotonic() - started)
        calls.append(call)
        return call

    def _cache(self, question: Question) -> bool | CachePolicy:
        """Whether to use Inspect's cache; what was set aside must not come from it again."""
        times = self._set_aside[question.stage, question.id, question.asked]
        if self.cache and times:
            return CachePolicy(scopes={"again": str(times)})
        return self.cache

    def _kept(self, model: str, output: ModelOutput, seconds: float) -> Call:
        reply, usage = reply_of(output), output.usage
        prompt, cached, written = None, 0, 0
        if usage is not None:
            prompt, cached, written = input_of(usage)
        events = transcript().events
        last = events[-1] if events else None
        remembered = isinstance(last, ModelEvent) and last.cache == "read"
        price = priced(model, prompt, reply.output_tokens, cached, written)
        return Call(
            reply=self._clean(reply.text),
            stop_reason=reply.stop_reason,
            input_tokens=prompt,
            output_tokens=reply.output_tokens,
            cached_tokens=None if usage is None else cached,
            price=0.0 if remembered else price,
            seconds=round(output.time or seconds, 3),
            error=reply.error,
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
    except Exception as fault:  # whatever a reply does to its reader, it costs one item
        if call.stop_reason in LENGTH_STOPS:
            return "truncated", "cut by a length limit: raise max_tokens of this role", None
        known = isinstance(fault, Malformed)
        reason = str(fault) if known else f"{type(fault).__name__}: {fault}"
        return "malformed", reason, None
