"""Asking a guard, in Inspect's terms: render, call, keep the raw replies.

One sample is one case, in both protocols: the calls of the per-rule protocol fan out inside.
Nothing is judged here. Replies are kept as they came, so that an old log can be read again by
a better parser (`inspect score`).
"""

import json
from dataclasses import asdict
from typing import Any

import anyio
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from safepyramid.case_rows import read_cases
from safepyramid.errors import RunError
from safepyramid.guards import load_guard
from safepyramid.guards.base import Guard, RuleQuestion, predicted_rules, rule_questions
from safepyramid.providers.calls import call_settings, chat_messages, reply_of
from safepyramid.providers.routes import require_route
from safepyramid.schema import Case, Reply
from safepyramid.secrets import make_scrub

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
        check_budget()
        prompt, model = made.per_policy.render(case), get_model()
        require_route(str(model), raw=prompt.raw)
        state.messages = chat_messages(prompt, str(model))
        state = await generate(state, **call_settings(prompt, model.config.extra_body))
        spend(state.output)
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
            return predicted(state, made, case)
        replies = await ask_each(made, rule_questions(case))
        state.store.set(REPLIES, {str(rule): asdict(reply) for rule, reply in replies.items()})
        failed = {rule: reply.error for rule, reply in replies.items() if reply.error}
        if failed:
            rule, error = next(iter(failed.items()))
            raise RunError(
                f"{len(failed)} of {len(replies)} judgments failed, Rule {rule} with: {error}"
            )
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
            check_budget()
            prompt = render(question)
            require_route(str(model), raw=prompt.raw)
            settings = GenerateConfig(**call_settings(prompt, model.config.extra_body))
            output = await model.generate(chat_messages(prompt, str(model)), config=settings)
        except Exception as error:
            replies[question.target.number] = Reply(
                "", error=make_scrub()(f"{type(error).__name__}: {error}")
            )
        else:
            spend(output)
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


def predicted(state: TaskState, guard: Guard, case: Case) -> TaskState:
    """Keep what a guard without a model says."""
    rules = predicted_rules(guard, case)
    state.store.set(PREDICTED, rules)
    state.output = ModelOutput.from_content(guard.name, f"violated rules: {rules}")
    return state


class Budget:
    """What a run may spend in US dollars, and what it has spent."""

    def __init__(self, limit: float, price: Any) -> None:
        self.limit = limit
        self.price = price
        self.spent = 0.0


_budget: Budget | None = None


def set_budget(budget: Budget | None) -> None:
    """Set or lift the budget of the runs that follow in this process."""
    global _budget
    _budget = budget


def check_budget() -> None:
    """Raise before a call once the budget is used up; calls under way are kept."""
    if _budget is not None and _budget.spent >= _budget.limit:
        raise RunError(
            f"cost limit of ${_budget.limit:g} reached; run the same command with a higher "
            "--cost-limit to go on where this run stopped"
        )


def spend(output: ModelOutput) -> None:
    """Count what a call cost."""
    if _budget is not None and output.usage is not None:
        _budget.spent += _budget.price(output.usage)
