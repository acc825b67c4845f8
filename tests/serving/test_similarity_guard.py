"""The guard that compares rules with what the chatbot said."""

import sys
from collections.abc import Sequence

import pytest
from small_cases import CASES, RULES

from safepyramid.errors import GuardError, RunError
from safepyramid.guards.similarity import embedder, most_similar_rules, similarity


def one_word(text: str) -> Sequence[float]:
    """Three axes: speaks of dates, of greetings, of neither."""
    if "certain" in text:
        return (1.0, 0.0, 0.0)
    return (0.0, 1.0, 0.0) if "greet" in text else (0.0, 0.0, 1.0)


def test_most_similar_rules_at_the_rate_of_the_level() -> None:
    # 6.3 of 28.7 rules are violated on level 1: of four rules, 0.88, so one.
    assert most_similar_rules(CASES[0], one_word) == [1]


def test_ties_go_to_the_smaller_number() -> None:
    assert most_similar_rules(CASES[0], lambda text: (1.0,)) == [1]


def test_prompts_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GuardError, match="leave --prompts out"):
        similarity("folder")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(GuardError, match=r"onnxruntime: pip install 'safepyramid\[similarity\]'"):
        similarity()


@pytest.mark.slow
def test_real_embedding_finds_the_topic() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `similarity`")
    pytest.importorskip("tokenizers", reason="needs the extra `similarity`")
    try:
        embed = embedder()
    except RunError as error:
        pytest.skip(f"the model cannot be fetched: {error}")
    vectors = [embed(RULES[1]), embed("It arrives on Monday, for certain."), embed("Bananas.")]
    assert all(sum(x * x for x in vector) == pytest.approx(1.0) for vector in vectors)
    rule, breach, other = vectors
    assert _cosine(rule, breach) > 0.3 > _cosine(rule, other)
    # What it cannot tell: a refusal that keeps the rule is just as similar.
    kept = embed("I cannot state a delivery date as certain.")
    assert _cosine(rule, kept) > _cosine(rule, breach)
    guard = similarity()
    assert guard.predict is not None
    assert set(guard.predict(CASES[0])) <= set(RULES)


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
