r"""GSPR: a list of category names, a conversation, `\safety{…}` and `\category{…}`.

It names one category at most: one rule a call. A category is a bare name in its format, so the
rule itself is the name, which is far longer than what it was trained on. It was trained on single
exchanges; a longer conversation goes on in the same `User:` and `Agent:` lines.
"""

import re
from pathlib import Path

from safepyramid.answers.forms import Absent, agreed
from safepyramid.guards.base import Guard, Message, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.reading import Said, read_verdict
from safepyramid.guards.rendering import dialogue, marker_free, one_line, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Reply, Verdict

_clean = marker_free(
    tags=["begin", "end"],
    labels=["User", "Agent"],
    starts=["\\safety{", "\\category{"],
)
_SAFETY = re.compile(r"\\safety\{([^{}\n]{0,80})\}", re.IGNORECASE)
_CATEGORY = re.compile(r"\\category\{")

CONFIG = {
    "temperature": 0.0,
    "top_p": 0.8,
    "max_tokens": 2048,
    "extra_body": {"repetition_penalty": 1.2},
}
"""As its makers run it; the repetition penalty is part of their setting."""


def gspr(prompts: str | Path | None = None) -> Guard:
    """GSPR on Qwen2.5-7B, one rule a call.

    Args:
        prompts: A folder whose templates replace ours.
    """
    templates = load_templates("gspr", prompts)

    def ask(question: RuleQuestion) -> Prompt:
        gaps = rule_gaps(question, _clean)
        user = fill(
            templates["gspr-user"],
            category=one_line(gaps["target"]),
            framework=gaps["framework"],
            context=gaps["context"],
            conversation=dialogue(question.case, "User: ", "Agent: ", _clean),
        )
        return Prompt((Message("user", user),))

    return Guard(name="gspr", per_rule=RuleAdapter(ask, _read, CONFIG), prompts=templates)


def _read(reply: Reply, question: RuleQuestion) -> Verdict:
    return read_verdict(reply, find_safety)


def find_safety(text: str) -> Said[bool]:
    r"""Read `\safety{unsafe}`, violated, or `\safety{safe}`; other words in the braces are none."""
    words = [_normal(word) for word in _SAFETY.findall(text)]
    labels = [word for word in words if word in ("safe", "unsafe")]
    if not labels:
        raise Absent("no \\safety{safe} or \\safety{unsafe}")
    violated = agreed([label == "unsafe" for label in labels])
    has_category = _CATEGORY.search(text) is not None
    return Said(violated, strict=has_category, complete=has_category)


def _normal(word: str) -> str:
    """A label in the spelling to which its makers reduce it."""
    return word.lower().replace("**", "").replace("_", " ").strip()
