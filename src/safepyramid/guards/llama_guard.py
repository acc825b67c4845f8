"""Llama Guard 3 and 4: a policy's rules as custom categories, `safe` or `unsafe` with codes.

The model's own chat template fixes its categories, so the prompt is rendered here and sent raw;
the server's tokenizer adds the first token (`<|begin_of_text|>`) itself. Category S7 is Rule 7,
which makes the list of codes a set of rules. Custom categories are weakly followed: others
measured an F1 of 13 on custom policies.
"""

import re
from pathlib import Path

from safepyramid.answers.forms import Absent, Unreadable
from safepyramid.guards.base import (
    Guard,
    Message,
    PolicyAdapter,
    Prompt,
    RuleAdapter,
    RuleQuestion,
)
from safepyramid.guards.options import one_of
from safepyramid.guards.reading import Said, first_label_probability, read_answer, read_verdict
from safepyramid.guards.rendering import (
    NONE,
    dialogue,
    marker_free,
    one_line,
    rule_gaps,
    rule_line,
)
from safepyramid.policy.parse import parse_policy
from safepyramid.prompts.render import fill, load_templates
from safepyramid.schema import Answer, Case, Reply, Rule, Verdict

_clean = marker_free(
    tags=["begin", "end"],
    labels=["User", "Agent"],
)
_TOKENS = {
    3: ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    4: ("<|header_start|>", "<|header_end|>", "<|eot|>"),
}
_VERDICT = re.compile(r"(safe|unsafe)(?![^\s])[^\S\n]*(?:\n\s*(\S.*))?", re.IGNORECASE | re.DOTALL)
_CODES = re.compile(r"S\d{1,6}(?:\s*,\s*S\d{1,6})*", re.IGNORECASE)

POLICY_CONFIG = {"temperature": 0.0, "max_tokens": 128}
RULE_CONFIG = {"temperature": 0.0, "max_tokens": 20, "logprobs": True, "top_logprobs": 20}
"""Greedy; a list of codes may need more than the usual 20 tokens."""


def llama_guard(prompts: str | Path | None = None, version: int = 3) -> Guard:
    """Llama Guard with custom categories, in both protocols; needs a completions endpoint.

    Args:
        prompts: A folder whose templates replace ours.
        version: 3 or 4: which special tokens the model knows.
    """
    one_of("llama-guard", "version", version, (3, 4))
    templates = load_templates("llama-guard", prompts)

    def prompt(case: Case, rules: tuple[Rule, ...], **gaps: str) -> Prompt:
        categories = (
            fill(
                templates["llama-guard-category"],
                number=str(rule.number),
                rule=one_line(_clean(rule_line(rule))),
            )
            for rule in rules
        )
        task = fill(
            templates["llama-guard-task"],
            categories="\n".join(categories),
            conversation=dialogue(case, "User: ", "Agent: ", _clean, between="\n\n"),
            **gaps,
        )
        return Prompt((Message("user", _raw(task, version)),), raw=True)

    def ask_policy(case: Case) -> Prompt:
        rules = parse_policy(case.policy, case.framework).rules
        return prompt(case, rules, framework=_clean(case.framework) or NONE, context=NONE)

    def ask_rule(question: RuleQuestion) -> Prompt:
        gaps = rule_gaps(question, _clean)
        return prompt(
            question.case,
            (question.target,),
            framework=gaps["framework"],
            context=gaps["context"],
        )

    return Guard(
        name="llama-guard",
        per_policy=PolicyAdapter(ask_policy, _read_policy, POLICY_CONFIG),
        per_rule=RuleAdapter(ask_rule, _read_rule, RULE_CONFIG),
        prompts=templates,
    )


def _raw(task: str, version: int) -> str:
    start, end, stop = _TOKENS[version]
    return f"{start}user{end}\n\n{task}{stop}{start}assistant{end}\n\n"


def _read_policy(reply: Reply, case: Case) -> Answer:
    def find(text: str) -> Said[frozenset[int]]:
        is_unsafe, codes = find_codes(text)
        if is_unsafe and not codes:
            raise Unreadable("unsafe without a category")
        return Said(frozenset(codes), strict=len(codes) == len(set(codes)))

    return read_answer(reply, find, case.rule_types)


def _read_rule(reply: Reply, question: RuleQuestion) -> Verdict:
    def find(text: str) -> Said[bool]:
        is_unsafe, codes = find_codes(text)
        if set(codes) - {question.target.number}:
            raise Unreadable("a category that was not given")
        score = first_label_probability(reply.logprobs, "unsafe", ["safe"])
        return Said(is_unsafe, strict=is_unsafe == bool(codes), score=score)

    return read_verdict(reply, find)


def find_codes(text: str) -> tuple[bool, list[int]]:
    """Whether the first line says unsafe, and the numbers of the category codes after it."""
    verdict = _VERDICT.fullmatch(text.strip())
    if verdict is None:
        raise Absent("the first line is neither safe nor unsafe")
    is_unsafe, rest = verdict[1].lower() == "unsafe", (verdict[2] or "").strip()
    if rest and not (is_unsafe and _CODES.fullmatch(rest)):
        raise Unreadable("more than a verdict and category codes")
    return is_unsafe, [int(code) for code in re.findall(r"\d+", rest)]
