"""Conversations that are nearly the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

WORDS = 5
"""Length of the word sequences that are compared."""

_WORD = re.compile(r"\w+")


def shingles(text: str) -> frozenset[int]:
    """The five-word sequences of a text, as hashes that hold within a process.

    A text of fewer words is one sequence; an empty one has none.
    """
    words = _WORD.findall(text.casefold())
    if not words:
        return frozenset()
    starts = range(max(1, len(words) - WORDS + 1))
    return frozenset(hash(tuple(words[start : start + WORDS])) for start in starts)


def similarity(one: Collection[int], other: Collection[int]) -> float:
    """Jaccard similarity of two sets: common of all, 0 to 1; 0 for two empty sets."""
    common = len(set(one) & set(other))
    union = len(set(one)) + len(set(other)) - common
    return common / union if union else 0.0


def near_duplicates(texts: Mapping[str, str], threshold: float) -> dict[str, str]:
    """Find texts that repeat an earlier one.

    Args:
        texts: By id; of two that are alike the one with the later id is the duplicate.
        threshold: From this similarity on they are alike.

    Returns:
        Duplicate -> the first kept text that it repeats. A text is compared with kept ones only.
    """
    found: dict[str, str] = {}
    sizes: dict[str, int] = {}
    holders: dict[int, list[str]] = defaultdict(list)
    for name in sorted(texts):
        own = shingles(texts[name])
        common = Counter(other for shingle in own for other in holders.get(shingle, ()))
        twins = [
            other
            for other, count in common.items()
            if count / (len(own) + sizes[other] - count) >= threshold
        ]
        if twins:
            found[name] = min(twins)
            continue
        sizes[name] = len(own)
        for shingle in own:
            holders[shingle].append(name)
    return found
