"""AdaGuard: a policy as JSON rules with ids, a label with the ids that are violated.

The one guard here that was trained to return a set. The policy stands in the system message,
the conversation as events in the user message, both as canonical JSON whose angle brackets are
escaped, so that no text can close a tag. A chatbot's message is an agent's action without a
thought.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safepyramid.answers.forms import Absent, Unreadable, agreed
from safepyramid.conversation import parse_conversation
from safepyramid.errors import GuardError
from safepyramid.guards.base import (
    Guard,
    Message,
    PolicyAdapter,
    Prompt,
    RuleAdapter,
    RuleQuestion,
)
from safepyramid.guards.reading import Said, read_answer, read_verdict
from safepyramid.guards.rendering import NONE, marker_free, rule_gaps, rule_line
from safepyramid.policy.parse import parse_policy
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Answer, Case, Reply, Rule, Turn, Verdict

MAX_RULES = 100
"""As many rules as the makers allow in a policy."""
NO_RISK = "NR"

_clean = marker_free(tags=["trusted_risk_policy", "untrusted_content", "analysis", "label"])
_LABEL = re.compile(r"<label>([^<>]{0,2000})</label>")
_FORM = re.compile(r"<analysis>\n.*\n</analysis>\n<label>[^<>\s]+</label>", re.DOTALL)
_ID = re.compile(r"R(\d{1,6})")

CONFIG = {"temperature": 0.0, "max_tokens": 640}
"""The makers' output limit; greedy decoding is our choice, theirs is not known."""


def adaguard(prompts: str | Path | None = None) -> Guard:
    """AdaGuard, 4B and 8B: the whole policy in one call, or one rule a call.

    Args:
        prompts: A folder whose templates replace ours.
    """
    templates = load_templates("adaguard", prompts)

    def prompt(case: Case, rules: Sequence[Rule], **gaps: str) -> Prompt:
        system = fill(templates["adaguard-system"], policy=_policy(rules, templates), **gaps)
        user = fill(templates["adaguard-user"], content=_content(case))
        return Prompt((Message("system", system), Message("user", user)))

    def ask_policy(case: Case) -> Prompt:
        framework = _clean(case.framework) or NONE
        rules = parse_policy(case.policy, case.framework).rules
        return prompt(case, rules, framework=framework, context=NONE)

    def ask_rule(question: RuleQuestion) -> Prompt:
        gaps = rule_gaps(question, _clean)
        return prompt(
            question.case,
            [question.target],
            framework=gaps["framework"],
            context=gaps["context"],
        )

    return Guard(
        name="adaguard",
        per_policy=PolicyAdapter(ask_policy, _read_policy, CONFIG),
        per_rule=RuleAdapter(ask_rule, _read_rule, CONFIG),
        prompts=templates,
    )


def _policy(rules: Sequence[Rule], templates: dict[str, str]) -> str:
    if len(rules) > MAX_RULES:
        raise GuardError(
            f"guard 'adaguard' takes policies of at most {MAX_RULES} rules, not {len(rules)}; "
            "use --protocol per_rule"
        )
    return _canonical(
        {
            "no_risk_condition": fill(templates["adaguard-no-risk"]),
            "no_risk_id": NO_RISK,
            "risk_rules": [
                {
                    "id": f"R{rule.number}",
                    "risk_category": f"Rule {rule.number}",
                    "risk_description": fill(
                        templates["adaguard-rule"], number=str(rule.number), rule=rule_line(rule)
                    ),
                }
                for rule in rules
            ],
            "single_label": False,
        }
    )


def _content(case: Case) -> str:
    return _canonical(
        {"content": [[_event(turn) for turn in parse_conversation(case.conversation)]]}
    )


def _event(turn: Turn) -> dict[str, str]:
    if turn.role == "user":
        return {"role": "user", "content": turn.text}
    return {"role": "agent", "thought": "", "action": turn.text}


def _canonical(value: Any) -> str:
    """Compact JSON with sorted keys, without any angle bracket."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _read_policy(reply: Reply, case: Case) -> Answer:
    order = [rule.number for rule in parse_policy(case.policy, case.framework).rules]

    def find(text: str) -> Said[frozenset[int]]:
        listed, in_form = find_rules(text)
        ranks = [order.index(number) for number in listed if number in order]
        strict = in_form and ranks == sorted(set(ranks)) and len(ranks) == len(listed)
        note = "" if strict else "another form than the makers'"
        return Said(frozenset(listed), strict, note, complete=True)

    return read_answer(reply, find, order)


def _read_rule(reply: Reply, question: RuleQuestion) -> Verdict:
    def find(text: str) -> Said[bool]:
        listed, in_form = find_rules(text)
        if set(listed) - {question.target.number}:
            raise Unreadable("a label that is not in the policy")
        return Said(bool(listed), strict=in_form and len(listed) < 2, complete=True)

    return read_verdict(reply, find)


def find_rules(text: str) -> tuple[list[int], bool]:
    """The rule numbers in the label, in its order, and whether the text had the makers' form.

    `NR` alone is no rule. Read with blanks around ids; an id of another form, or `NR` beside
    ids, cannot be read.
    """
    _, closed, after = text.rpartition("</analysis>")
    if not closed and "<analysis>" in text:
        raise Absent("the analysis is not closed")
    labels = _LABEL.findall(after)
    if not labels:
        raise Absent("no <label> after the analysis")
    return agreed([_ids(label) for label in labels]), _FORM.fullmatch(text) is not None


def _ids(label: str) -> list[int]:
    names = [name.strip() for name in label.split(",")]
    if names == [NO_RISK]:
        return []
    ids = [_ID.fullmatch(name) for name in names]
    if not all(ids):
        raise Unreadable(f"label {label[:40]!r} holds no rule id")
    return [int(each[1]) for each in ids if each]
