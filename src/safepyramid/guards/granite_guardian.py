"""Granite Guardian 4.1: the conversation as chat turns, then a turn with the criterion.

It scores one criterion a call and says yes where the criterion is met, so the criterion is "the
rule is violated". It was trained to score the last assistant's text; here the scoring schema
says that any of the assistant's texts may meet the criterion.
"""

import re
from pathlib import Path

from safepyramid.answers.forms import Absent, agreed
from safepyramid.guards.base import Guard, Message, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.options import flag
from safepyramid.guards.reading import Said, read_verdict
from safepyramid.guards.rendering import chat_turns, marker_free, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Reply, Verdict

_clean = marker_free(tags=["guardian", "score"], starts=["### Criteria", "### Scoring"])
_SCORE = re.compile(r"<score>\s*(yes|no)\s*</score>", re.IGNORECASE)


def granite_guardian(prompts: str | Path | None = None, think: bool = False) -> Guard:
    """Granite Guardian 4.1 8B, one rule a call.

    Args:
        prompts: A folder whose templates replace ours.
        think: Whether it reasons before it scores.
    """
    flag("granite-guardian", "think", think)
    templates = load_templates("granite-guardian", prompts)
    judge = templates["granite-guardian-judge-think" if think else "granite-guardian-judge"]

    def ask(question: RuleQuestion) -> Prompt:
        criteria = fill(templates["granite-guardian-criteria"], **rule_gaps(question, _clean))
        turns = chat_turns(question.case, _clean)
        return Prompt((*turns, Message("user", fill(judge, criteria=criteria))))

    return Guard(
        name="granite-guardian",
        per_rule=RuleAdapter(ask, _read, {"temperature": 0.0, "max_tokens": 2048}),
        prompts=templates,
    )


def _read(reply: Reply, question: RuleQuestion) -> Verdict:
    return read_verdict(reply, find_score)


def find_score(text: str) -> Said[bool]:
    """Read `<score>yes</score>`, violated, or `<score>no</score>`."""
    scores = [score.lower() for score in _SCORE.findall(text)]
    if not scores:
        raise Absent("no yes or no in a score tag")
    whole = _SCORE.fullmatch(text) is not None
    return Said(agreed(scores) == "yes", strict=whole, complete=whole)
