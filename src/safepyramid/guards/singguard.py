"""SingGuard: rules as an argument of its chat template, the conversation as chat turns.

Its first line says safe or unsafe, its answer tag names one rule's title: one rule a call. The
system prompt is part of the model's template and is not ours to write; the rule goes in as
`policy`. Its makers show a query, or a query and a response; how it weighs the earlier turns of a
longer conversation is not known.
"""

import re
from pathlib import Path
from typing import Any

from safepyramid.answers.forms import Absent, Unreadable, agreed
from safepyramid.guards.base import Guard, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.options import one_of
from safepyramid.guards.reading import Said, read_verdict
from safepyramid.guards.rendering import chat_turns, marker_free, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Reply, Verdict

_clean = marker_free(tags=["answer"])
_clean_policy = marker_free(tags=["answer"], starts=["### "])  # begins a category
_FIRST_LINE = re.compile(r"[\s*`\"]{0,8}(safe|unsafe)\b[*`\".]{0,3}[^\S\n]*(?:\n|$)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>([^<>]{0,500})</answer>", re.IGNORECASE)
_MAX_TOKENS = {"fast": 256, "slow": 1024}


def singguard(prompts: str | Path | None = None, mode: str = "fast") -> Guard:
    """SingGuard, 2B to 8B, one rule a call; its server must accept `chat_template_kwargs`.

    Args:
        prompts: A folder whose templates replace ours.
        mode: `fast` gives only the verdict and the title. `slow` is the template's default,
            which reasons between the two where it sees a need.
    """
    one_of("singguard", "mode", mode, ("fast", "slow"))
    templates = load_templates("singguard", prompts)

    def ask(question: RuleQuestion) -> Prompt:
        policy = fill(templates["singguard-policy"], **rule_gaps(question, _clean_policy))
        arguments: dict[str, Any] = {"policy": policy}
        if mode == "fast":
            arguments["thinking_type"] = "fast"
        return Prompt(chat_turns(question.case, _clean), template_args=arguments)

    return Guard(
        name="singguard",
        per_rule=RuleAdapter(ask, _read, {"temperature": 0.0, "max_tokens": _MAX_TOKENS[mode]}),
        prompts=templates,
    )


def _read(reply: Reply, question: RuleQuestion) -> Verdict:
    def find(text: str) -> Said[bool]:
        line = _FIRST_LINE.match(text)
        if line is None:
            raise Absent("the first line is neither safe nor unsafe")
        is_unsafe = line[1].lower() == "unsafe"
        titles = [title.strip() for title in _ANSWER.findall(text)]
        if (
            titles
            and agreed([_names_rule(title, question.target.number) for title in titles])
            != is_unsafe
        ):
            raise Unreadable("the first line and the answer tag differ")
        return Said(is_unsafe, strict=len(titles) == 1, complete=bool(titles))

    return read_verdict(reply, find)


def _names_rule(title: str, number: int) -> bool:
    """Whether an answer names the rule; not if it is `Safe`. Any other title is unreadable."""
    if title.lower() == "safe":
        return False
    if re.search(rf"\brule {number}\b", title, re.IGNORECASE) or title.upper() in ("A", "A."):
        return True
    raise Unreadable(f"{title[:40]!r} is no title of the policy")
