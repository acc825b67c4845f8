"""Any instruction-following model, asked in plain words: the default guard."""

from pathlib import Path

from safepyramid.answers.parse import answer_from_reply, verdict_from_reply
from safepyramid.guards.base import (
    Guard,
    Message,
    PolicyAdapter,
    Prompt,
    RuleAdapter,
    RuleQuestion,
)
from safepyramid.guards.rendering import NONE, marker_free, rule_line
from safepyramid.prompts.render import fenced, fill, load_templates
from safepyramid.schema import Answer, Case, Reply, Verdict

_clean = marker_free()


def chat(prompts: str | Path | None = None) -> Guard:
    """The benchmark's own prompts, for any model with a chat interface.

    Args:
        prompts: A folder whose templates replace ours.
    """
    templates = load_templates("chat", prompts)

    def ask_policy(case: Case) -> Prompt:
        user = fill(
            templates["chat-policy-user"],
            policy=fenced("policy", _clean(case.policy)),
            conversation=fenced("conversation", _clean(case.conversation)),
        )
        return Prompt(
            (Message("system", fill(templates["chat-policy-system"])), Message("user", user))
        )

    def ask_rule(question: RuleQuestion) -> Prompt:
        shared = fill(
            templates["chat-rule-shared"],
            framework=_clean(question.case.framework) or NONE,
            conversation=fenced("conversation", _clean(question.case.conversation)),
        )
        target = fill(
            templates["chat-rule-target"],
            number=str(question.target.number),
            target=_clean(rule_line(question.target)),
            context=_clean("\n\n".join(map(rule_line, question.context))) or NONE,
        )
        return Prompt(
            (
                Message("system", fill(templates["chat-rule-system"])),
                Message("user", (f"{shared}\n\n", target)),
            )
        )

    return Guard(
        name="chat",
        per_policy=PolicyAdapter(ask_policy, read_policy),
        per_rule=RuleAdapter(ask_rule, read_rule),
        prompts=templates,
    )


def read_policy(reply: Reply, case: Case) -> Answer:
    """Read a reply in the form that the chat prompts ask for."""
    return answer_from_reply(reply, frozenset(case.rule_types))


def read_rule(reply: Reply, question: RuleQuestion) -> Verdict:
    """Read a verdict in the form that the chat prompts ask for."""
    return verdict_from_reply(reply)
