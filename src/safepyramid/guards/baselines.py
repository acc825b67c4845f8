"""Guards that need no model: what a number is worth is seen beside them."""

import hashlib
import random
import re
from collections.abc import Callable, Collection
from pathlib import Path

from safepyramid.conversation import parse_conversation
from safepyramid.errors import GuardError
from safepyramid.guards.base import Guard
from safepyramid.metrics.baselines import VIOLATED_RATE
from safepyramid.policy.parse import parse_policy
from safepyramid.schema import Case

_WORD = re.compile(r"[a-z][a-z'-]{3,}")


def none(prompts: str | Path | None = None) -> Guard:
    """Calls no rule violated."""
    return _predictor("none", prompts, lambda case: ())


def every(prompts: str | Path | None = None) -> Guard:
    """Calls every rule violated."""
    return _predictor("all", prompts, lambda case: list(case.rule_types))


def uniform(prompts: str | Path | None = None, seed: int = 0) -> Guard:
    """Calls each rule violated by chance, at the published data's rate for the level.

    One draw of what the row `random` of a result table has the expectation of.

    Args:
        prompts: Not used; a folder here is an error.
        seed: Another seed, another draw. A case's draw does not depend on the other cases.
    """

    def predict(case: Case) -> Collection[int]:
        digest = hashlib.sha256(f"{seed}/{case.id}".encode()).digest()
        generator = random.Random(digest)
        rate = VIOLATED_RATE[case.level]
        return [rule for rule in sorted(case.rule_types) if generator.random() < rate]

    return _predictor("random", prompts, predict)


def lexical(prompts: str | Path | None = None) -> Guard:
    """Calls those rules violated that share most words with what the chatbot says.

    A rule's score is the share of its distinct content words that occur in the chatbot's turns;
    the best-scoring rules are taken, as many as the published data's rate for the level says.
    What it reaches is what word overlap alone gives away.
    """
    return _predictor("lexical", prompts, _most_shared_words)


def _most_shared_words(case: Case) -> Collection[int]:
    turns = parse_conversation(case.conversation)
    spoken = words(" ".join(turn.text for turn in turns if turn.role == "chatbot"))
    rules = parse_policy(case.policy, case.framework).rules
    scores = {rule.number: overlap(words(rule.text), spoken) for rule in rules}
    count = round(VIOLATED_RATE[case.level] * len(rules))
    return sorted(scores, key=lambda number: (-scores[number], number))[:count]


def words(text: str) -> frozenset[str]:
    """The distinct lower-case words of four letters or more."""
    return frozenset(_WORD.findall(text.lower()))


def overlap(of: frozenset[str], inside: frozenset[str]) -> float:
    """Share of the first set that the second holds, from 0 to 1; 0 for an empty first set."""
    return len(of & inside) / len(of) if of else 0.0


def _predictor(
    name: str, prompts: str | Path | None, predict: Callable[[Case], Collection[int]]
) -> Guard:
    if prompts is not None:
        raise GuardError(f"guard {name!r} sends no prompts; leave --prompts out")
    return Guard(name=name, predict=predict)
