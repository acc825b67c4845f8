"""Answers in a form that the provider enforces: one boolean a rule, or one of two verdicts.

`structured` wraps a guard: its prompts get a JSON schema and a sentence about it, and its replies
are read by that schema. Off by default, because it changes what is measured: a constrained model
cannot write its reasoning into the answer, and cannot leave a rule out.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from safepyramid.answers.parse import READABLE_STOPS, answer_from_reply, verdict_from_reply
from safepyramid.answers.text import Pairs, plain_json, whole_json
from safepyramid.errors import GuardError
from safepyramid.guards.base import (
    Guard,
    Message,
    PolicyAdapter,
    Prompt,
    RuleAdapter,
    RuleQuestion,
)
from safepyramid.policy.parse import parse_policy
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Answer, Case, Reply, State, Verdict

VERDICT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["violated", "not_violated"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
"""The form of an answer about one rule."""

_KEY = re.compile(r"r(\d{1,6})")


def structured(guard: Guard) -> Guard:
    """The same guard, asked for answers in a form that the provider enforces.

    Raises:
        GuardError: The guard calls no model. One that sends raw prompts, or whose last message is
            not the user's, raises when it renders.
    """
    if guard.predict is not None:
        raise GuardError(f"guard {guard.name!r} calls no model, so no form can be asked of it")
    templates = load_templates("structured")
    policy, rule = guard.per_policy, guard.per_rule

    def ask_policy(case: Case) -> Prompt:
        assert policy is not None
        numbers = [rule.number for rule in parse_policy(case.policy, case.framework).rules]
        keys = ", ".join(f"r{number}" for number in numbers)
        form = fill(templates["structured-policy"], keys=keys)
        return _formed(guard.name, policy.render(case), form, rules_schema(numbers))

    def ask_rule(question: RuleQuestion) -> Prompt:
        assert rule is not None
        form = fill(templates["structured-rule"])
        return _formed(guard.name, rule.render(question), form, VERDICT_SCHEMA)

    return replace(
        guard,
        per_policy=PolicyAdapter(ask_policy, _read_policy, policy.config) if policy else None,
        per_rule=RuleAdapter(ask_rule, _read_rule, rule.config) if rule else None,
        prompts={**guard.prompts, **templates},
    )


def rules_schema(rules: Sequence[int]) -> dict[str, Any]:
    """The form of an answer about a policy: a required boolean `rN` for each rule.

    Args:
        rules: The policy's rule numbers, in the order of its text.

    >>> rules_schema([2, 1])["required"]
    ['r2', 'r1']
    """
    keys = [f"r{number}" for number in rules]
    return {
        "type": "object",
        "properties": {key: {"type": "boolean"} for key in keys},
        "required": keys,
        "additionalProperties": False,
    }


def read_booleans(text: str, rules: Collection[int]) -> frozenset[int] | None:
    """The rules that an answer in the form of `rules_schema` calls violated.

    Args:
        text: A reply's answer channel; thinking and a code fence around the object are set aside.
        rules: The policy's rule numbers.

    Returns:
        Numbers that the policy does not have included; None where the text is no such object: a
        key is missing, is there twice with two values, or has a value that is no boolean.

    >>> sorted(read_booleans('{"r1": true, "r2": false, "r3": true}', [1, 2, 3]))
    [1, 3]
    >>> read_booleans('{"r1": true, "r3": true}', [1, 2, 3]) is None
    True
    """
    whole = whole_json(text)
    if whole is None or not isinstance(whole[0], Pairs):
        return None
    said: dict[int, bool] = {}
    for key, value in whole[0]:
        number = _KEY.fullmatch(key)
        if number is None:
            continue
        if not isinstance(value, bool) or said.setdefault(int(number[1]), value) != value:
            return None
    if not set(rules) <= said.keys():
        return None
    return frozenset(rule for rule, violated in said.items() if violated)


def _read_policy(reply: Reply, case: Case) -> Answer:
    rules = frozenset(case.rule_types)
    freely = answer_from_reply(reply, rules)
    if freely.state in (State.BLOCKED, State.ERROR):
        return freely
    violated = read_booleans(reply.text, rules)
    if violated is None:
        if freely.state is not State.ANSWERED:
            return freely
        return Answer(State.UNPARSED, note="an answer, but not the object of booleans asked for")
    ended = reply.stop_reason in READABLE_STOPS
    note = "" if ended else f"complete JSON, but stopped for {reply.stop_reason!r}"
    strict = ended and plain_json(reply.text) is not None
    return Answer(State.ANSWERED, violated, violated - rules, strict, note)


def _read_rule(reply: Reply, question: RuleQuestion) -> Verdict:
    return verdict_from_reply(reply)


def _formed(name: str, prompt: Prompt, form: str, schema: Mapping[str, Any]) -> Prompt:
    if prompt.raw:
        raise GuardError(
            f"guard {name!r} sends raw prompts, which take no answer form: leave --structured out"
        )
    *before, last = prompt.messages
    if last.role != "user":  # what is judged may stand there, and is never added to
        raise GuardError(
            f"guard {name!r} ends its prompts with a message of the {last.role}, where no answer "
            "form can be asked for: leave --structured out"
        )
    if isinstance(last.content, str):
        content: str | tuple[str, ...] = f"{last.content}\n\n{form}"
    else:
        content = (*last.content[:-1], f"{last.content[-1]}\n\n{form}")
    return replace(prompt, messages=(*before, Message(last.role, content)), schema=schema)
