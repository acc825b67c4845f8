"""gpt-oss-safeguard: the policy as system message, the conversation as user message.

The model has no labels of its own: the policy text defines them. Its makers advise sections for
instructions, definitions, what violates and what is safe, and the output form both at the top
and at the bottom. Servers turn the API's system message into harmony's developer message and
keep the analysis channel apart; where they do not, only the final channel is read.
"""

from pathlib import Path
from typing import Any

from safepyramid.answers.forms import VERDICT, Absent, Unreadable, agreed
from safepyramid.answers.parse import answer_from_reply, parse_verdict
from safepyramid.answers.text import Broken, keyed, pieces, plain_json, whole_json
from safepyramid.guards.base import (
    Guard,
    Message,
    PolicyAdapter,
    Prompt,
    RuleAdapter,
    RuleQuestion,
)
from safepyramid.guards.reading import Said, read_verdict
from safepyramid.guards.rendering import marker_free, rule_gaps
from safepyramid.prompts.render import fenced, fill, load_templates
from safepyramid.schema import Answer, Case, Reply, Verdict

_clean = marker_free()
_VERDICTS: dict[float | str, bool] = {1: True, 0: False, "1": True, "0": False}


def gpt_oss_safeguard(prompts: str | Path | None = None) -> Guard:
    """OpenAI's gpt-oss-safeguard, 20B and 120B, in both protocols.

    Args:
        prompts: A folder whose templates replace ours.
    """
    templates = load_templates("gpt-oss-safeguard", prompts)

    def content(case: Case) -> Message:
        conversation = fenced("conversation", _clean(case.conversation))
        return Message(
            "user", fill(templates["gpt-oss-safeguard-content"], conversation=conversation)
        )

    def ask_policy(case: Case) -> Prompt:
        system = fill(templates["gpt-oss-safeguard-policy"], policy=_clean(case.policy))
        return Prompt((Message("system", system), content(case)))

    def ask_rule(question: RuleQuestion) -> Prompt:
        system = fill(templates["gpt-oss-safeguard-rule"], **rule_gaps(question, _clean))
        return Prompt((Message("system", system), content(question.case)))

    return Guard(
        name="gpt-oss-safeguard",
        per_policy=PolicyAdapter(ask_policy, _read_policy),
        per_rule=RuleAdapter(ask_rule, _read_rule),
        prompts=templates,
    )


def _read_policy(reply: Reply, case: Case) -> Answer:
    return answer_from_reply(reply, frozenset(case.rule_types))


def _read_rule(reply: Reply, question: RuleQuestion) -> Verdict:
    return read_verdict(reply, find_verdict)


def find_verdict(text: str) -> Said[bool]:
    """Read the form that was asked for, or, where there is none of it, a plain verdict.

    A plain verdict beside the asked form must agree with it.
    """
    try:
        said = find_violation(text)
    except Absent:
        other = parse_verdict(text)
        if other.violated is None:
            raise
        return Said(other.violated, other.strict, other.note)
    other = parse_verdict(text)
    if other.violated is not None:
        agreed([said.value, other.violated])
    elif any(map(_has_verdict, _json_in(text))):
        raise Unreadable(f"a second verdict that cannot be read: {other.note}")
    return said


def _has_verdict(piece: Any) -> bool:
    if isinstance(piece, Broken):
        return VERDICT.key.search(piece.text) is not None
    return bool(keyed(piece, "verdict", "violated"))


def _json_in(text: str) -> list[Any]:
    whole = whole_json(text)
    return [*pieces(text)] if whole is None else [whole[0]]


def find_violation(text: str) -> Said[bool]:
    """Read `{"violation": 1}` or a bare `1`: 1 is violated, 0 is not.

    Also read: the object inside other text, and 0 and 1 as strings, decimals or truth values.
    """
    whole = whole_json(text)
    if whole is not None:
        found = _labels([whole[0]]) or _violations(whole[0])
        if found:
            return Said(
                agreed(found),
                strict=_is_asked_form(text),
                complete=bool(keyed(whole[0], "violation")),
            )
    found = []
    for piece in pieces(text):
        if isinstance(piece, Broken):
            if '"violation"' in piece.text:
                raise Unreadable("broken JSON")
            continue
        found += _violations(piece)
    if not found:
        raise Absent("no violation label in the text")
    return Said(agreed(found), strict=False, note="found inside other text")


def _violations(value: Any) -> list[bool]:
    labels = [label for _, label in keyed(value, "violation")]
    if len(_labels(labels)) < len(labels):
        raise Unreadable("violation is neither 0 nor 1")
    return _labels(labels)


def _labels(values: list[Any]) -> list[bool]:
    return [_VERDICTS[v] for v in values if isinstance(v, int | float | str) and v in _VERDICTS]


def _is_asked_form(text: str) -> bool:
    value = plain_json(text)
    label = value.get("violation") if isinstance(value, dict) else value
    return type(label) is int
