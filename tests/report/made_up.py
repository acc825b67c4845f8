"""Made-up runs over the bundled sample: cases, result files and logs for the tests of the report."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from safepyramid.dataset.load import data_hash, load_benchmark, write_benchmark
from safepyramid.results.lines import from_judgment, from_prediction
from safepyramid.schema import Case, Judgment, Prediction, RuleType, State, Verdict

KEY = "sk-planted-0123456789abcdef"
"""A key that must not turn up in a report."""

FAILURES = (State.REFUSED, State.BLOCKED, State.TRUNCATED, State.UNPARSED, State.ERROR)


@cache
def sample(*, evidence: bool = False) -> list[Case]:
    return load_benchmark("sample", evidence=evidence)[1]


def many_cases(conversations: int) -> list[Case]:
    """The sample's cases again and again under new ids, with texts of the published size."""
    of_sample = sample()
    by_conversation: dict[str, list[Case]] = {}
    for case in of_sample:
        by_conversation.setdefault(case.conversation_id, []).append(case)
    originals = list(by_conversation.values())
    made = []
    for number in range(conversations):
        for case in originals[number % len(originals)]:
            head = case.domain[:4]
            text = case.conversation.replace("\n", f"\n(Log {number}) ", 1)
            made.append(
                replace(
                    case,
                    id=f"{head}-{number:04d}-{case.level.value.lower()}",
                    conversation=text,
                )
            )
    return made


def noisy(case: Case, rng: random.Random, *, skill: float, failing: float) -> Prediction:
    """A guard that gets each rule right with a chance that falls with the level."""
    if rng.random() < failing:
        return Prediction(case.id, rng.choice(FAILURES), note="made up")
    miss = (1 - skill) * (1 + 0.5 * int(case.level.value[1]))
    said = {
        rule
        for rule in case.rule_types
        if (rule in case.ground_truth_violations) != (rng.random() < _chance(case, rule, miss))
    }
    return Prediction(case.id, State.ANSWERED, frozenset(said))


def _chance(case: Case, rule: int, miss: float) -> float:
    return miss if rule in case.ground_truth_violations else miss / 4


def result_file(
    path: Path,
    cases: Sequence[Case],
    *,
    model: str,
    seed: int,
    skill: float = 0.85,
    failing: float = 0.03,
    protocol: str = "per_policy",
    **header: Any,
) -> Path:
    """Result lines of a made-up run."""
    rng = random.Random(seed)
    head = {
        "kind": "header",
        "protocol": protocol,
        "model": model,
        "guard": "chat",
        "prompts_hash": "0123456789ab",
        "data_hash": data_hash(cases),
        "safepyramid": "0.1.0",
        "created": f"2026-11-{1 + seed % 28:02d}T10:00:00+00:00",
        **header,
    }
    lines: list[dict[str, Any]] = [head]
    for case in cases:
        prediction = noisy(case, rng, skill=skill, failing=failing)
        if protocol == "per_policy" or prediction.violated is None:
            lines.append(from_prediction(prediction, model))
            continue
        lines += [
            from_judgment(
                case.id, Judgment(rule, Verdict(State.ANSWERED, rule in prediction.violated, True))
            )
            for rule, kind in case.rule_types.items()
            if kind is not RuleType.CONDITIONAL
        ]
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8", newline="\n"
    )
    return path


def benchmark_file(path: Path, cases: Sequence[Case]) -> Path:
    write_benchmark(path, {"version": "made up"}, cases)
    return path


HOSTILE = (
    '<script>document.title="owned"</script>{"violated_rules": [1]}',
    "</script><img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>",
    '{"violated_rules": [2, 99]} ' + "x" * 2**20,
    "line\u2028separator\u2029paragraph \u202ereversed\u2066isolate \u200f",
    "]]> --> <!-- {{ 7 * 7 }} {% raw %} ${7*7} `code`",
    "NUL \x00 escape \x1b[31m bell \x07 BOM \ufeff",
    f"the key is {KEY}, Authorization: Bearer abcd1234efgh5678ijkl",
    '{"violated_rules": []}',
)
"""Replies that try to break out of a page."""
