"""Nemotron content safety: a policy of one's own in place of the built-in taxonomy.

Two models. Nemotron 3.5 takes the policy as an argument of its chat template
(`custom_policy`). Nemotron Content Safety Reasoning 4B takes one prompt with the policy, the
conversation, and a switch for thinking at its end. Both judge the user's and the assistant's
side; only the assistant's verdict is read, since only the chatbot can violate a rule. One rule a
call.
"""

import re
from dataclasses import replace
from pathlib import Path

from safepyramid.answers.forms import Absent, agreed
from safepyramid.answers.text import keyed, whole_json
from safepyramid.guards.base import Guard, Message, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.options import flag, one_of
from safepyramid.guards.reading import Said, read_verdict
from safepyramid.guards.rendering import dialogue, exchange, marker_free, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Reply, Verdict

_clean = marker_free(
    labels=[
        *("Human user", "AI assistant", "User", "Assistant"),
        *("Prompt harm", "Response harm", "User Safety", "Response Safety"),
    ]
)
_RESPONSE = re.compile(
    r"\bResponse[ _](?:Harm|Safety)[\"*]{0,3}\s{0,4}:[\s\"*]{0,6}(unharmful|harmful|unsafe|safe)\b(?!\s{0,3}/)",
    re.IGNORECASE,
)
_LINE = re.compile(
    rf"^[ \t*]{{0,8}}{_RESPONSE.pattern}[ \t*.]{{0,8}}\r?$", re.IGNORECASE | re.MULTILINE
)

CONFIG = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 400}
"""The makers' sampling for the 4B model."""


def nemotron(
    prompts: str | Path | None = None, variant: str = "reasoning-4b", think: bool = False
) -> Guard:
    """NVIDIA's content-safety models with a custom policy, one rule a call.

    Args:
        prompts: A folder whose templates replace ours.
        variant: `reasoning-4b` for Nemotron-Content-Safety-Reasoning-4B, `3.5` for
            Nemotron-3.5-Content-Safety, whose server must accept `chat_template_kwargs`.
        think: Whether it reasons before its verdict.
    """
    variant = str(variant)  # a command line reads 3.5 as a number
    one_of("nemotron", "variant", variant, ("reasoning-4b", "3.5"))
    flag("nemotron", "think", think)
    templates = load_templates("nemotron", prompts)

    def policy(question: RuleQuestion) -> str:
        return fill(templates["nemotron-policy"], **rule_gaps(question, _clean))

    def ask_4b(question: RuleQuestion) -> Prompt:
        turns = dialogue(question.case, "Human user:\n", "AI assistant:\n", _clean, between="\n\n")
        text = fill(templates["nemotron-prompt"], policy=policy(question), conversation=turns)
        return Prompt((Message("user", f"{text}\n\n{'/think' if think else '/no_think'}"),))

    def ask_35(question: RuleQuestion) -> Prompt:
        return Prompt(
            exchange(question.case, "User: ", "Assistant: ", _clean),
            template_args={
                "custom_policy": policy(question),
                "enable_thinking": think,
                "request_categories": "/no_categories",
            },
        )

    def read(reply: Reply, question: RuleQuestion) -> Verdict:
        # Until its thinking is known to have ended, a cut text may be thinking.
        ended = not think or bool(reply.reasoning) or "</think>" in reply.text.lower()
        return read_verdict(
            reply, lambda text: replace(find_response_verdict(text), complete=ended)
        )

    adapter = (
        RuleAdapter(ask_4b, read, CONFIG)
        if variant == "reasoning-4b"
        else RuleAdapter(ask_35, read, {"temperature": 0.0, "max_tokens": 1024})
    )
    return Guard(name="nemotron", per_rule=adapter, prompts=templates)


def find_response_verdict(text: str) -> Said[bool]:
    """Read `Response harm: harmful` or `Response Safety: unsafe`, violated, and their opposites.

    The verdict stands on a line of its own; wherever else it is named, it must be the same. What
    the model says of the user's side is passed over. Also read: the JSON of older models.
    """
    words = [word.lower() for word in _RESPONSE.findall(text)]
    whole = whole_json(text)
    in_json = whole is not None and keyed(whole[0], "responseharm", "responsesafety")
    if not words or not (in_json or _LINE.search(text)):
        raise Absent("no verdict on the response")
    violated = agreed([word in ("harmful", "unsafe") for word in words])
    return Said(violated, strict="{" not in text and len(words) == 1, complete=True)
