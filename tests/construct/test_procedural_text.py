"""The procedural author's text: it says what happens, and nothing else."""

import random
import re
from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.construct.procedural_story import tell_story
from safepyramid.construct.procedural_words import (
    Phrase,
    inflect,
    invent,
    load_vocabulary,
    load_words,
    part,
    phrase,
    sentence,
)
from safepyramid.schema import DOMAINS

VALUES = {
    "name": r"[A-Z][a-z]+ [A-Z][a-z]+",
    "code": r"[A-Z]{2}-\d{4}",
    "date": r"\d{1,2} [A-Z][a-z]+",
    "sum": r"\d,\d{3} crowns",
    "place": r"\d{1,2} [A-Z][a-z]+ [A-Z][a-z]+",
}
FULL = ("give", "later", "source", "change", "correct")
USERS = (
    "request",
    "press",
    "drop",
    "has",
    "raise",
    "misclaim",
    "deadline",
    "moved",
    "say",
    "near",
    "back",
)


def wordings(vocabulary):
    """Act, topic, wording and what fills its gaps, for everything that can happen."""
    acts, parts = load_words("common")["acts"], load_words("common")["parts"]
    sources = either(vocabulary.sources)
    for item in vocabulary.items:
        gaps = {"x": either([item.name]), "v": f"({VALUES[item.kind]})", "s": sources}
        for act in (*FULL, "request", "press", "drop", "has", "refuse", "promise"):
            yield from ((act, item.key, wording, gaps) for wording in acts[act])
        gaps["p"] = r"([\w ]+?)"
        yield from (("half", item.key, wording, gaps) for wording in parts[item.kind])
    for claim in vocabulary.claims:
        gaps = {"c": either([claim.clause]), "by": either(claim.by)}
        for act in ("raise", "misclaim", "endorse", "reject"):
            yield from ((act, claim.key, wording, gaps) for wording in acts[act])
    for fact in vocabulary.facts:
        own = {"say": fact.says, "near": fact.near, "back": fact.back, "ask": fact.asks}
        yield from ((act, fact.key, text, {}) for act, texts in own.items() for text in texts)
    for caution in vocabulary.cautions:
        yield from (("caution", caution.key, text, {}) for text in caution.text)
    days = {"d": r"(\w+day)", "old": r"\w+day"}
    for act in ("deadline", "moved", "day"):
        yield from ((act, "deadline", wording, days) for wording in acts[act])


def either(texts):
    """A pattern for one of the texts, with a small or a capital first letter."""
    return "(?:" + "|".join(re.escape(t) for text in texts for t in (text, sentence(text))) + ")"


@cache
def readers(domain):
    """Pattern, role, act and topic for every sentence by which something can happen."""
    found = []
    for act, topic, wording, gaps in wordings(load_vocabulary(domain)):
        pattern = re.sub(r"\\\{(\w+)\\\}", lambda m, g=gaps: g[m[1].lower()], re.escape(wording))
        role = "user" if act in USERS else "chatbot"
        found.append((re.compile(rf"(?:^|(?<=[.?!] )){pattern}(?=$| )"), role, act, topic))
    return found


def read_events(story):
    """What the text says, found by its wordings alone."""
    found = Counter()
    for turn in story.turns:
        for pattern, role, act, topic in readers(story.vocabulary.domain):
            if role == turn.role:
                for match in pattern.finditer(turn.text):
                    value = next((g for g in match.groups() if g), "")
                    found[turn.number, role, act, topic, value] += 1
    return found


def merged(events):
    """Acts that one sentence can belong to alike: what counts is the value that is stated."""
    kinds = {**dict.fromkeys(("give", "later"), "give"), "source": "source"}
    return {
        (turn, role, kinds.get(act, act), topic, value) for turn, role, act, topic, value in events
    }


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_text_says_exactly_what_happens(domain):
    vocabulary = load_vocabulary(domain)
    kinds = {item.key: item.kind for item in vocabulary.items}
    for seed in range(12):
        story = tell_story(vocabulary, 13, random.Random(seed))
        silent = ("pass", "shelve", "mute", "silent", "deny")
        told = {
            (
                event.turn,
                event.role,
                event.act,
                event.topic,
                part(kinds[event.topic], event.value)
                if event.act == "half"
                else event.value
                if event.act in (*FULL, "day", "deadline", "moved")
                else "",
            )
            for event in story.events
            if event.act not in silent
        }
        assert merged(read_events(story)) == merged(told)
        for event in story.events:
            texts = [t.text for t in story.turns if (t.number, t.role) == (event.turn, event.role)]
            assert event.text in texts[0]


def test_no_two_details_share_a_value_or_the_part_that_may_be_given():
    vocabulary = load_vocabulary("fraud")
    kinds = {item.key: item.kind for item in vocabulary.items}
    story = tell_story(vocabulary, 13, random.Random(3))
    given = {(e.topic, e.value) for e in story.events if e.act in FULL}
    parts = Counter(part(kinds[topic], value) for topic, value in given)
    assert max(parts.values()) == 1


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("name", "Ansel Rusk", "AR"),
        ("code", "KR-4471", "71"),
        ("date", "14 March", "March"),
        ("sum", "8,400 crowns", "8"),
        ("place", "12 Mill Street", "Mill Street"),
    ],
)
def test_parts_of_values(kind, value, expected):
    assert part(kind, value) == expected


# Vocabularies.


@pytest.mark.parametrize("domain", DOMAINS)
def test_vocabularies_are_whole(domain):
    v = load_vocabulary(domain)
    assert v.domain == domain
    keys = [entry.key for entry in (*v.items, *v.claims, *v.facts, *v.cautions)] + ["deadline"]
    assert len(keys) == len(set(keys))
    assert len(v.items) >= 9
    assert {item.kind for item in v.items} == set(VALUES)
    assert len(v.claims) >= 5
    assert len(v.facts) >= 7
    assert len(v.cautions) >= 8
    sentences = [
        *v.colour["user"],
        *v.colour["chatbot"],
        *(s for fact in v.facts for s in (*fact.says, *fact.near, *fact.back, *fact.asks)),
        *(s for caution in v.cautions for s in caution.text),
    ]
    assert all(text[0].isupper() and text[-1] in ".?" and text.isascii() for text in sentences)
    assert len(sentences) == len(set(sentences))
    # Remarks must not be taken for acts, nor for what surface terms look at.
    for text in (*v.colour["user"], *v.colour["chatbot"]):
        assert not re.search(r"[\d?]", text)
        assert not any(item.name in text.lower() for item in v.items)
    for item in v.items:
        for name in (item.name, *item.far):
            assert not name.endswith((" in", " on", " of", " to"))  # "… in in full"


@pytest.mark.parametrize(
    ("verb", "third", "participle"),
    [
        ("warn", "warns", "warned"),
        ("deny", "denies", "denied"),
        ("advise", "advises", "advised"),
        ("stress", "stresses", "stressed"),
        ("give", "gives", "given"),
        ("refer", "refers", "referred"),
        ("convey", "conveys", "conveyed"),
    ],
)
def test_inflection(verb, third, participle):
    assert inflect(verb) == (third, participle)


def test_phrases():
    words_ = phrase("say | that it is so")
    assert (words_.base, words_.third, words_.perfect) == (
        "say that it is so",
        "says that it is so",
        "said that it is so",
    )
    assert phrase("warn the user") == Phrase("warn", "the user")


@given(st.integers(0, 10_000))
def test_invented_words_can_be_told_apart(seed):
    rng = random.Random(seed)
    coined = invent("noun", 8, ["bury"], rng)
    coined += invent("verb", 6, [*coined, "bury"], rng)
    assert len({word[:3] for word in [*coined, "bury"]}) == 15
    assert all(re.fullmatch(r"[b-df-hj-np-tv-z][a-z]{4,9}", word) for word in coined)
