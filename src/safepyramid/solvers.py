"""Asking a guard, in Inspect's terms: render, call, keep the raw replies.

One sample is one case, in both protocols: the calls of the per-rule protocol fan out inside.
Nothing is judged here. Replies are kept as they came, so that an old log can be read again by
a better parser (`inspect score`; see `scorers.rule_set`).
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

from safepyramid.budget import TURNED_AWAY, Budget, BudgetSpent
from safepyramid.dataset.rows import read_cases
from safepyramid.errors import RunError
from safepyramid.guards import load_guard
from safepyramid.guards.base import Guard, Prompt, RuleQuestion, predicted_rules, rule_questions
from safepyramid.providers.calls import (
    call_settings,
    chat_messages,
    reply_of,
    run_extra_body,
    told,
)
from safepyramid.providers.routes import require_route
from safepyramid.providers.watched import watched
from safepyramid.schema import Case, Reply, RuleType
from safepyramid.tokens import estimate_tokens

REPLIES = "replies"
"""Store key of the per-rule protocol: rule number (as text) -> reply."""
PREDICTED = "predicted"
"""Store key of a guard without a model: the rules that it calls violated."""
UNASKED = "unasked"
"""Store key of a case that was not asked, or not to its end: why."""


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
        prompt, model = made.per_policy.render(case), watched(get_model())
        require_route(str(model), raw=prompt.raw)
        state.messages = chat_messages(prompt, str(model))
        prescribed = made.per_policy.config.get("extra_body")
        settings = call_settings(prompt, run_extra_body(model), prescribed)
        try:
            async with budgeted(prompt) as spend:
                state = await generate(state, **settings)
                spend(state.output)
        except BudgetSpent as error:
            # an error to Inspect, which asks such cases again and keeps those that a limit ended
            state.store.set(UNASKED, str(error))
            raise
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
        replies, spent = await ask_each(made, rule_questions(case))
        state.store.set(REPLIES, {str(rule): asdict(reply) for rule, reply in replies.items()})
        if spent is not None:
            state.store.set(UNASKED, str(spent))
            raise spent
        failed = [reply.error for reply in replies.values() if reply.error]
        if failed:
            raise RunError(f"a judgment failed: {failed[0]}")
        return state

    return solve


async def ask_each(
    guard: Guard, questions: list[RuleQuestion]
) -> tuple[dict[int, Reply], BudgetSpent | None]:
    """Ask one question, then all others at once.

    The first call leaves the shared beginning in the provider's cache, where the others find it.
    A call that fails is a reply with its error; a gap is a question that was not asked.

    Returns:
        Rule number -> reply, and why the others were not asked; None where all were.
    """
    replies, spent = dict[int, Reply](), list[BudgetSpent]()
    if not questions:
        return replies, None
    assert guard.per_rule is not None
    render, model = guard.per_rule.render, watched(get_model())
    prescribed = guard.per_rule.config.get("extra_body")

    async def ask(question: RuleQuestion) -> None:
        try:
            prompt = render(question)
            require_route(str(model), raw=prompt.raw)
            settings = call_settings(prompt, run_extra_body(model), prescribed)
            async with budgeted(prompt) as spend:
                output = await model.generate(
                    chat_messages(prompt, str(model)), config=GenerateConfig(**settings)
                )
                spend(output)
        except BudgetSpent as error:
            spent.append(error)
        except Exception as error:
            replies[question.target.number] = Reply("", error=told(error))
        else:
            replies[question.target.number] = reply_of(output)

    await ask(questions[0])
    async with anyio.create_task_group() as group:
        for question in questions[1:]:
            group.start_soon(ask, question)
    return dict(sorted(replies.items())), spent[0] if spent else None


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


Price = Callable[[ModelUsage], float]
"""What tokens cost, in US dollars."""

_budget: tuple[Budget, Price] | None = None


def set_budget(budget: Budget | None, price: Price = lambda usage: 0.0) -> None:
    """Set or lift the budget of the runs that follow in this process."""
    global _budget
    _budget = None if budget is None else (budget, price)


@asynccontextmanager
async def budgeted(prompt: Prompt) -> AsyncIterator[Callable[[ModelOutput], None]]:
    """Hold a call to the run's budget, if it has one; see `Budget.hold`.

    Yields:
        What to call with the output, to count what it cost.

    Raises:
        BudgetSpent: if the budget does not reach for one more call.
    """
    if _budget is None:
        yield lambda output: None
        return
    budget, price = _budget
    tokens = sum(estimate_tokens(message.text) for message in prompt.messages)
    async with budget.hold("", price(ModelUsage(input_tokens=tokens))) as spend:

        def spend_on(output: ModelOutput) -> None:
            if output.usage is not None:
                spend(price(output.usage))
            elif not output.error and output.stop_reason not in TURNED_AWAY:
                spend(None)

        yield spend_on
