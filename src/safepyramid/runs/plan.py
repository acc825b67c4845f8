"""What a run will ask and cost, before anything is spent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from safepyramid.errors import RunError
from safepyramid.guards.base import Guard, Prompt, RuleQuestion
from safepyramid.prices import price_of
from safepyramid.schema import Case, Protocol
from safepyramid.tokens import estimate_tokens

ANSWER_TOKENS = {"per_policy": (150, 6000), "per_rule": (40, 1500)}
"""Least and most output tokens of a usual call: a terse answer, and one with long thinking."""


OPERATIONAL = frozenset(
    {
        *("max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections"),
        *("adaptive_connections", "batch", "cache", "cache_prompt", "max_tool_output"),
    }
)
"""Generation settings that say how calls are made, not what is asked: runs that differ in these
alone measure the same."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a run and their tokens, estimated."""

    cases: int
    calls: int
    input_tokens: int
    shared_tokens: int
    """The part of `input_tokens` that repeats an earlier call's prefix of the same case."""
    output_tokens: tuple[int, int]
    """From terse answers to long thinking."""


def plan_run(
    guard: Guard,
    protocol: Protocol,
    cases: Sequence[Case],
    questions: Callable[[Case], Sequence[RuleQuestion]],
) -> Plan:
    """Render every prompt of a run and count.

    Args:
        guard: The guard that is asked; one without a model makes no calls.
        protocol: Which protocol.
        cases: The cases that will run.
        questions: How a case is taken apart into judgments.
    """
    if guard.predict is not None:
        return Plan(len(cases), 0, 0, 0, (0, 0))
    calls = total = shared = 0
    for case in cases:
        prompts = _prompts(guard, protocol, case, questions)
        sizes = [[estimate_tokens(part) for part in _parts(prompt)] for prompt in prompts]
        calls += len(prompts)
        total += sum(map(sum, sizes))
        shared += sum(sum(size[:-1]) for size in sizes[1:])
    low, high = ANSWER_TOKENS[protocol]
    return Plan(len(cases), calls, total, shared, (calls * low, calls * high))


def _prompts(
    guard: Guard,
    protocol: Protocol,
    case: Case,
    questions: Callable[[Case], Sequence[RuleQuestion]],
) -> list[Prompt]:
    if protocol == "per_policy":
        assert guard.per_policy is not None
        return [guard.per_policy.render(case)]
    assert guard.per_rule is not None
    return [guard.per_rule.render(question) for question in questions(case)]


def _parts(prompt: Prompt) -> list[str]:
    return [
        part
        for message in prompt.messages
        for part in ([message.content] if isinstance(message.content, str) else message.content)
    ]


def require_price(model: str) -> None:
    """Raise a RunError if the model's price is not known, which a cost limit needs."""
    if price_of(model, 1000, 1000) is None:
        raise RunError(
            f"no price is known for {model!r}, so --cost-limit cannot hold; leave it out, or "
            "bound the run with --limit"
        )


def render_plan(plan: Plan, model: str | None) -> str:
    """A plan as lines for a person; an unknown price says so."""
    low, high = plan.output_tokens
    lines = [
        f"cases           {plan.cases:,}",
        f"calls           {plan.calls:,}",
        f"input tokens    about {plan.input_tokens:,}",
    ]
    if plan.shared_tokens:
        share = plan.shared_tokens / plan.input_tokens
        lines.append(f"  of these      {share:.0%} repeat a prefix that caches can hold")
    lines.append(f"output tokens   {low:,} to {high:,}, by how much the model thinks")
    if model is None or not plan.calls:
        lines.append("price           nothing: no model is called")
        return "\n".join(lines)
    cheap = price_of(model, plan.input_tokens, low, plan.shared_tokens, calls=plan.calls)
    dear = price_of(model, plan.input_tokens, high, calls=plan.calls)
    if cheap is None or dear is None:
        lines.append(f"price           unknown: no list price for {model}")
    else:
        lines.append(f"price           ${cheap:,.2f} to ${dear:,.2f} at list prices")
    return "\n".join(lines)
