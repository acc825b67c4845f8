"""Cases, runs and result files made by hand, for the tests of the analysis."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.analysis.runs import Origin, Run, Runs, Usage, name_runs
from safepyramid.dataset.load import data_hash, write_benchmark
from safepyramid.results.read import write_results
from safepyramid.schema import (
    Case,
    FailureModeMetadata,
    Level,
    Prediction,
    RubricEntry,
    RuleType,
    State,
)

GOLDEN = Path(__file__).parent.parent / "golden"

TYPES = {
    1: RuleType.DECISIVE,
    2: RuleType.DECISIVE,
    3: RuleType.DECISIVE,
    4: RuleType.DECISIVE,
    5: RuleType.DISTRACTOR,
    6: RuleType.EXCEPTION,
    7: RuleType.EXCEPTION,
    8: RuleType.CONDITIONAL,
}
PAIRED = {6: (2,), 7: (1,), 8: (3,)}
GOLD = frozenset({1, 3, 6})
"""1 by its own text, though exception 7 names it; 3 through conditional 8; 6 by its own standard.

Exception 6 waives 2. Rule 4 is kept and nothing names it.
"""


def case(
    number: int = 1,
    level: str = "L1",
    domain: str = "fraud",
    gold: Iterable[int] = GOLD,
    policy: str = "Check every rule.",
) -> Case:
    """A case of the design above; an L0 case lacks the modifiers."""
    kept = {n: kind for n, kind in TYPES.items() if level != "L0" or n < 6}
    violated = frozenset(gold) & kept.keys()
    modified = level != "L0"
    return Case(
        id=f"{domain[:4]}-{number:03d}-{level.lower()}",
        domain=domain,
        level=Level(level),
        ground_truth_violations=violated,
        conversation=f"Turn 1 - User: Hello {number}.\nTurn 1 - Chatbot: Hello.",
        framework="",
        policy=policy,
        rubric=tuple(
            RubricEntry(n, f"Text of {n}.", kind, n in violated, PAIRED.get(n, ()))
            for n, kind in kept.items()
        ),
        failure_mode_metadata=FailureModeMetadata(
            frozenset({5}),
            frozenset({2}) if modified else frozenset(),
            frozenset({3}) & violated if modified else frozenset(),
        ),
    )


def pyramid(conversations: int, domain: str = "fraud") -> list[Case]:
    """Three cases per conversation."""
    return [
        case(number, level, domain)
        for number in range(1, conversations + 1)
        for level in ("L0", "L1", "L2")
    ]


def answered(case_id: str, violated: Iterable[int]) -> Prediction:
    return Prediction(case_id, State.ANSWERED, frozenset(violated))


def predictions(
    cases: Sequence[Case], said: Mapping[str, Iterable[int] | State]
) -> dict[str, Prediction]:
    """Case id -> prediction: a set, or a state other than answered; the truth where nothing is said."""
    found = {}
    for each in cases:
        answer = said.get(each.id, each.ground_truth_violations)
        if isinstance(answer, State):
            found[each.id] = Prediction(each.id, answer)
        else:
            unknown = frozenset(answer) - each.rule_types.keys()
            found[each.id] = Prediction(each.id, State.ANSWERED, frozenset(answer), unknown)
    return found


def run(
    cases: Sequence[Case],
    said: Mapping[str, Iterable[int] | State] | None = None,
    *,
    usage: Sequence[Usage] = (),
    **origin: Any,
) -> Run:
    """A run on some cases; it is right where nothing is said."""
    full = {"path": "run.jsonl", "protocol": "per_policy", "model": "org/model", **origin}
    return Run(
        "",
        Origin(**full),
        data_hash(cases),
        tuple(cases),
        predictions(cases, said or {}),
        tuple(usage),
    )


def together(*runs: Run) -> Runs:
    """Runs with their names."""
    names = name_runs([r.origin for r in runs], [r.data_hash for r in runs])
    return Runs(
        tuple(
            Run(name, r.origin, r.data_hash, r.cases, r.predictions, r.usage, r.seconds)
            for name, r in zip(names, runs, strict=True)
        )
    )


def benchmark(path: Path, cases: Sequence[Case]) -> Path:
    write_benchmark(path, {}, cases)
    return path


def result_file(
    path: Path,
    cases: Sequence[Case],
    said: Mapping[str, Iterable[int] | State] | None = None,
    *,
    model: str = "org/model",
    header: Mapping[str, Any] | None = None,
) -> Path:
    write_results(path, predictions(cases, said or {}).values(), model=model, header=header)
    return path
