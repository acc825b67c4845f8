"""ShieldGemma: the probability of Yes against No as the next token, one rule a call.

Its chat template is no dialogue but one text with a guideline; the text is rendered here and
sent raw. The server's tokenizer adds the first token (`<bos>`) itself. It was trained on one
question and one response; a longer conversation repeats the two blocks.
"""

import re
from pathlib import Path

from safepyramid.answers.forms import Absent
from safepyramid.conversation import parse_conversation
from safepyramid.guards.base import Guard, Message, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.options import number_in
from safepyramid.guards.reading import Said, label_probability, read_verdict
from safepyramid.guards.rendering import marker_free, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Case, Reply, Verdict

_clean = marker_free(labels=["Human Question", "Chatbot Response"])
_WORD = re.compile(r"\W{0,4}(Yes|No)\b(?!\s{0,3}/)", re.IGNORECASE)

CONFIG = {"temperature": 0.0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}


def shieldgemma(prompts: str | Path | None = None, threshold: float = 0.5) -> Guard:
    """ShieldGemma, 2B to 27B, one rule a call; needs a completions endpoint.

    Args:
        prompts: A folder whose templates replace ours.
        threshold: Violated if the probability of Yes is at least this. A server that gives no
            log-probabilities leaves the word itself, which decides at 0.5 only.
    """
    number_in("shieldgemma", "threshold", threshold, 0, 1)
    templates = load_templates("shieldgemma", prompts)

    def ask(question: RuleQuestion) -> Prompt:
        text = fill(
            templates["shieldgemma-prompt"],
            conversation=_blocks(question.case),
            guideline=fill(templates["shieldgemma-guideline"], **rule_gaps(question, _clean)),
        )
        return Prompt((Message("user", f"{text}\n\n"),), raw=True)

    def read(reply: Reply, question: RuleQuestion) -> Verdict:
        def find(text: str) -> Said[bool]:
            first = reply.logprobs[0] if reply.logprobs else {}
            probability = label_probability(first, "Yes", ["No"])
            if probability is not None:
                return Said(probability >= threshold, complete=True, score=probability)
            word = _WORD.match(text)
            if word is None:
                raise Absent("neither Yes nor No")
            if threshold != 0.5:
                raise Absent(f"threshold {threshold:g} needs log-probabilities, and none came")
            note = "no log-probabilities: the word decides"
            return Said(word[1].lower() == "yes", strict=False, note=note, complete=True)

        return read_verdict(reply, find)

    return Guard(name="shieldgemma", per_rule=RuleAdapter(ask, read, CONFIG), prompts=templates)


def _blocks(case: Case) -> str:
    label = {"user": "Human Question", "chatbot": "Chatbot Response"}
    return "\n".join(
        f"<start_of_turn>\n{label[turn.role]}: {_clean(turn.text)}\n<end_of_turn>"
        for turn in parse_conversation(case.conversation)
    )
