"""DynaGuard: rules and a transcript in tags, PASS or FAIL in an answer tag.

FAIL says that some rule is violated, not which: one rule a call. Two modes, as its makers run
it. Reasoning is a chat prompt. Fast opens the answer tag in the prompt, which only a completions
endpoint can do: the prompt is rendered here with Qwen3's chat template, its empty thinking block
included.
"""

import re
from pathlib import Path

from safepyramid.answers.forms import Absent, agreed
from safepyramid.guards.base import Guard, Message, Prompt, RuleAdapter, RuleQuestion
from safepyramid.guards.options import one_of
from safepyramid.guards.reading import Said, first_label_probability, read_verdict
from safepyramid.guards.rendering import dialogue, marker_free, rule_gaps
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Reply, Verdict

_clean = marker_free(
    tags=["rules", "transcript", "answer", "explanation"], labels=["User", "Agent"]
)
_ANSWER = re.compile(r"<answer>\s*(PASS|FAIL)\s*</answer>", re.IGNORECASE)
_FAST = re.compile(r"(?:<answer>)?\s*(PASS|FAIL)[\s.]*(?:</answer>.*)?", re.DOTALL | re.IGNORECASE)

REASONING_CONFIG = {
    "temperature": 0.6,
    "top_p": 0.95,
    "max_tokens": 1024,
    "extra_body": {"top_k": 20, "min_p": 0},
}
FAST_CONFIG = {
    "temperature": 0.7,
    "top_p": 0.8,
    "max_tokens": 8,
    "stop_seqs": ["</answer>"],
    "logprobs": True,
    "top_logprobs": 20,
    "extra_body": {"top_k": 20},
}
"""The makers' sampling; they allow 1024 tokens, of which the label needs a few."""


def dynaguard(prompts: str | Path | None = None, mode: str = "reasoning") -> Guard:
    """DynaGuard, 1.7B to 8B, one rule a call.

    Args:
        prompts: A folder whose templates replace ours.
        mode: `reasoning` thinks first and works on any chat endpoint. `fast` answers at once,
            gives the probability of FAIL as its score, and needs a completions endpoint.
    """
    one_of("dynaguard", "mode", mode, ("reasoning", "fast"))
    templates = load_templates("dynaguard", prompts)

    def ask(question: RuleQuestion) -> Prompt:
        system = f"\n{fill(templates['dynaguard-system'])}\n"
        user = fill(
            templates["dynaguard-content"],
            rules=fill(templates["dynaguard-rule"], **rule_gaps(question, _clean)),
            conversation=dialogue(question.case, "'User': ", "'Agent': ", _clean),
        )
        if mode == "fast":
            return Prompt((Message("user", _prefilled(system, f"\n{user}\n")),), raw=True)
        return Prompt((Message("system", system), Message("user", f"\n{user}\n")))

    adapter = (
        RuleAdapter(ask, _read_fast, FAST_CONFIG)
        if mode == "fast"
        else RuleAdapter(ask, _read_reasoning, REASONING_CONFIG)
    )
    return Guard(name="dynaguard", per_rule=adapter, prompts=templates)


def _prefilled(system: str, user: str) -> str:
    return (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n<answer>\n"
    )


def _read_reasoning(reply: Reply, question: RuleQuestion) -> Verdict:
    has_thought = bool(reply.reasoning) or "</think>" in reply.text

    def find(text: str) -> Said[bool]:
        labels = _ANSWER.findall(text)
        if not labels:
            raise Absent("no PASS or FAIL in an answer tag")
        violated = agreed([label.upper() == "FAIL" for label in labels])
        return Said(violated, strict=labels[0].isupper(), complete=has_thought)

    return read_verdict(reply, find)


def _read_fast(reply: Reply, question: RuleQuestion) -> Verdict:
    def find(text: str) -> Said[bool]:
        label = _FAST.fullmatch(text)
        if label is None:
            raise Absent("the text does not begin with PASS or FAIL")
        return Said(
            label[1].upper() == "FAIL",
            strict=label[1].isupper(),
            complete=True,
            score=first_label_probability(reply.logprobs, "FAIL", ["PASS"]),
        )

    return read_verdict(reply, find)
