"""Asking a guard, in Inspect's terms: render, call, keep the raw replies.

One sample is one case, in both protocols: the calls of the per-rule protocol fan out inside.
Nothing is judged here. Replies are kept as they came, so that an old log can be read again by
a better parser (`inspect score`).
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import anyio
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from safepyramid.case_rows import read_cases
from safepyramid.errors import RunError
from safepyramid.guards import load_guard
from safepyramid.guards.base import Guard, Prompt, RuleQuestion, predicted_rules, rule_questions
from safepyramid.providers.calls import call_settings, chat_messages, reply_of
from safepyramid.providers.routes import require_route
from safepyramid.schema import Case, Reply, RuleType
from safepyramid.secrets import scrubbed
from safepyramid.tokens import estimate_tokens

REPLIES = "replies"
"""Store key of the per-rule protocol: rule number (as text) -> reply."""
PREDICTED = "predicted"
"""Store key of a guard without a model: the rules that it calls violated."""


@solver
def ask_policy(
    guard: str = "chat",
    prompts: str | None = None,
    options: dict[str, Any] | None = None,
    structured: bool = False,
) -> Solver:
    """One call a case: the whole policy, the whole set.

    Args:
        guard: Name of a guard, or `file.py:NAME`.
        prompts: Folder of templates that replace the guard's own.
        options: The guard's options.
        structured: Ask for the answer in a JSON form that the provider enforces.
    """
    made = load_guard(guard, prompts, options, structured=structured)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        case = case_of(state)
        if made.predict is not None:
            return predicted(state, made, case)
        assert made.per_policy is not None
        prompt, model = made.per_policy.render(case), get_model()
        require_route(str(model), raw=prompt.raw)
        state.messages = chat_messages(prompt, str(model))
        settings = call_settings(prompt, model.config.extra_body)
        try:
            async with budgeted(prompt) as spend:
                state = await generate(state, **settings)
                spend(state.output)
        except (LimitExceededError, RunError):
            raise
        except Exception as error:
            raise RunError(told(error)) from None
        return state

    return solve


@solver
def ask_rules(
    guard: str = "chat",
    prompts: str | None = None,
    options: dict[str, Any] | None = None,
    structured: bool = False,
) -> Solver:
    """One call a rule: each rule that is no conditional, with the rules that touch it.

    Args:
        guard: Name of a guard, or `file.py:NAME`.
        prompts: Folder of templates that replace the guard's own.
        options: The guard's options.
        structured: Ask for the answer in a JSON form that the provider enforces.
    """
    made = load_guard(guard, prompts, options, structured=structured)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        case = case_of(state)
        if made.predict is not None:
            return predicted(state, made, case, without=RuleType.CONDITIONAL)
        replies = await ask_each(made, rule_questions(case))
        state.store.set(REPLIES, {str(rule): asdict(reply) for rule, reply in replies.items()})
        failed = [reply.error for reply in replies.values() if reply.error]
        if failed:
            raise RunError(f"a judgment failed: {failed[0]}")
        return state

    return solve


async def ask_each(guard: Guard, questions: list[RuleQuestion]) -> dict[int, Reply]:
    """Ask one question, then all others at once.

    The first call leaves the shared beginning in the provider's cache, where the others find it.
    A call that fails is a reply with its error, never a gap. No question, no reply.
    """
    if not questions:
        return {}
    assert guard.per_rule is not None
    render, model, replies = guard.per_rule.render, get_model(), dict[int, Reply]()

    async def ask(question: RuleQuestion) -> None:
        try:
            prompt = render(question)
            require_route(str(model), raw=prompt.raw)
            settings = GenerateConfig(**call_settings(prompt, model.config.extra_body))
            async with budgeted(prompt) as spend:
                output = await model.generate(chat_messages(prompt, str(model)), config=settings)
                spend(output)
        except Exception as error:
            replies[question.target.number] = Reply("", error=told(error))
        else:
            replies[question.target.number] = reply_of(output)

    await ask(questions[0])
    async with anyio.create_task_group() as group:
        for question in questions[1:]:
            group.start_soon(ask, question)
    return dict(sorted(replies.items()))


def case_of(state: TaskState) -> Case:
    """The case that a sample carries."""
    row = json.loads(state.metadata["case"][0])
    return read_cases([row], f"sample {state.sample_id}", evidence=False)[0]


def predicted(
    state: TaskState, guard: Guard, case: Case, without: RuleType | None = None
) -> TaskState:
    """Keep what a guard without a model says; per rule, conditionals are never asked about."""
    types = case.rule_types
    rules = [
        rule
        for rule in predicted_rules(guard, case)
        if without is None or types.get(rule) is not without
    ]
    state.store.set(PREDICTED, rules)
    state.output = ModelOutput.from_content(guard.name, f"violated rules: {rules}")
    return state


def told(error: BaseException) -> str:
    """A failed call's cause in one line: the provider's own words, without keys."""
    attempt = getattr(error, "last_attempt", None)
    cause = (attempt.exception() if attempt is not None else None) or error
    return scrubbed(f"{type(cause).__name__}: {cause}", 300)


class Budget:
    """What a run may spend in US dollars, what it has spent, and what is under way."""

    def __init__(
        self, limit: float, price: Callable[[ModelUsage], float], spent: float = 0.0
    ) -> None:
        self.limit = limit
        self.price = price
        self.spent = spent
        self.reserved = 0.0
        self.calls = 0
        self.paid = 0.0

    def expected(self, prompt: Prompt) -> float:
        """The price of the next call: the mean so far; before any, that of the prompt alone."""
        if self.calls:
            return self.paid / self.calls
        tokens = sum(estimate_tokens(message.text) for message in prompt.messages)
        return self.price(ModelUsage(input_tokens=tokens))


_budget: Budget | None = None


def set_budget(budget: Budget | None) -> None:
    """Set or lift the budget of the runs that follow in this process."""
    global _budget
    _budget = budget


@asynccontextmanager
async def budgeted(prompt: Prompt) -> AsyncIterator[Callable[[ModelOutput], None]]:
    """Hold a call to the budget: wait while calls under way may use it up, refuse once they have.

    Yields:
        What to call with the output, to count what it cost.

    Raises:
        RunError: if the budget does not reach for one more call.
    """
    budget = _budget
    if budget is None:
        yield lambda output: None
        return
    while (
        budget.reserved and budget.spent + budget.reserved + budget.expected(prompt) > budget.limit
    ):
        await anyio.sleep(0.05)
    expected = budget.expected(prompt)
    if budget.spent + expected > budget.limit:
        raise RunError(
            f"cost limit of ${budget.limit:g} reached; run the same command with a higher "
            "--cost-limit to go on where this run stopped"
        )
    budget.reserved += expected

    def spend(output: ModelOutput) -> None:
        if output.usage is not None:
            cost = budget.price(output.usage)
            budget.spent += cost
            budget.paid += cost
            budget.calls += 1

    try:
        yield spend
    finally:
        budget.reserved -= expected
