"""The framework of an L2 policy: invented and redefined words, and the concepts they stand for."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from safepyramid.construct.procedural_concepts import Concept, Hit, Pool, merged, within
from safepyramid.construct.procedural_story import Role, Story
from safepyramid.construct.procedural_words import (
    counted,
    inflect,
    invent,
    listed,
    load_words,
    phrase,
    sentence,
)

_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_VERBS = ("full", "part", "decline", "announce", "press", "reject", "endorse")
_OPTIONAL = ("surface", "debt", "tone")
_NOUNS = ("standing", "caution", *_OPTIONAL)
_CLASSES = ("a", "b", "c")
_DETAIL_ACTS: tuple[tuple[str, Role], ...] = (
    ("full", "chatbot"),
    ("part", "chatbot"),
    ("decline", "chatbot"),
    ("announce", "chatbot"),
    ("press", "user"),
    ("request", "user"),
)
_CLAIM_ACTS: tuple[tuple[str, Role], ...] = (
    ("raise", "user"),
    ("reject", "chatbot"),
    ("endorse", "chatbot"),
)
_BY_PHASE = ("full", "part", "decline", "announce", "request", "caution", "surface")
"""Concepts that rules may also limit to one phase of the chat."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A body of terms."""

    name: str
    """With its article."""
    text: str
    """The block that stands before the rules."""
    concepts: tuple[Concept, ...]
    """What rules in its terms can speak of."""


class _Term(str):
    """A word that formats as `{word:third}`, `{word:plural}` or `{word:upper}`."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        if form == "third":
            return inflect(str(self))[0]
        if form == "plural":
            return f"{self!s}s"
        return sentence(str(self)) if form == "upper" else str(self)


_Words = Mapping[str, _Term]


def draw_framework(
    story: Story, plain: Sequence[Concept], shift: float, rng: random.Random
) -> Framework:
    """Invent a framework for a conversation.

    Args:
        story: What happens in the conversation.
        plain: The concepts in plain words that the definitions are made of.
        shift: How often a definition keeps away from the conversation's wording, from 0 to 1.
        rng: All chance comes from it.
    """
    pool, words = Pool(plain), _draw_words(rng)
    classes = _draw_classes(story, rng)
    facts, either = _draw_facts(pool, rng), rng.random() < 0.4
    cautions = rng.sample(pool.by_kind["caution"], 3)
    span, digits = rng.randrange(2, 5), rng.random() < 0.5
    kept = rng.sample(_OPTIONAL, 2)

    candle = _concept("caution", "chatbot", words, words["caution"], cautions)
    concepts = [
        *_of_details(pool, words, classes),
        *_of_claims(pool, words),
        _standing(words, facts, either),
        candle,
        _surface(story, words, digits, candle),
        _debt(pool, words, span),
        _tone(story, words),
    ]
    concepts = [c for c in concepts if c.kind in kept or c.kind not in _OPTIONAL]
    anchor = _draw_anchor(concepts, story.length, rng)
    concepts += _by_phase(concepts, words, anchor, story.length)
    book = load_words("framework")
    names = {
        item.key: rng.choice(item.far) if rng.random() < shift else item.name
        for item in story.vocabulary.items
    }
    gaps: dict[str, object] = {
        **words,
        "a_items": _Term(listed([names[key] for key in classes["a"]])),
        "b_items": _Term(listed([names[key] for key in classes["b"]])),
        "f": facts[0].phrase.rest,
        "g": facts[1].phrase.rest,
        "things": listed([f"to {caution.base}" for caution in cautions], "or"),
        "anchor": f"{anchor.who} {anchor.third}",
        "span": counted(span, "turn", "turns"),
        "due": 2 + span,
        "name": rng.choice(book["names"]),
        "place": rng.choice(book["places"]),
    }
    parts = [
        book["titles"],
        book["opening"],
        book["basics"],
        book["classes"],
        book["acts"],
        book["standing"]["either" if either else "both"],
        book["phases"],
        book["claims"],
        book["cautions"],
        book["surface"]["digits" if digits else "question"] if "surface" in kept else (),
        book["debt"] if "debt" in kept else (),
        book["tone"] if "tone" in kept else (),
        book["precedence"],
    ]
    paragraphs = [rng.choice(options).format(**gaps) for options in parts if options]
    paragraphs[0] = paragraphs[0].upper()
    return Framework(f"the {gaps['name']}", "\n\n".join(paragraphs), tuple(concepts))


def _draw_words(rng: random.Random) -> _Words:
    """A word for each term: about half of them ordinary words, the others invented."""
    book = load_words("framework")
    words = {kind: rng.choice(options) for kind, options in book["ordinary"].items()}
    _, second, *others = rng.sample(_VERBS, len(_VERBS))
    coined = {second, *(kind for kind in (*others, *_NOUNS) if rng.random() < 0.5)}
    verbs = [kind for kind in _VERBS if kind in coined]
    nouns = [*_CLASSES, "raise", *(kind for kind in _NOUNS if kind in coined)]
    taken = [word for kind, word in words.items() if kind not in coined]
    new = invent("noun", len(nouns), taken, rng)
    words |= dict(zip(nouns, new, strict=True))
    words |= dict(zip(verbs, invent("verb", len(verbs), taken + new, rng), strict=True))
    words["first"], words["second"] = rng.choice(book["pairs"])
    return {kind: _Term(word) for kind, word in words.items()}


def _draw_classes(story: Story, rng: random.Random) -> dict[str, list[str]]:
    """The details in three classes, each with some that the conversation deals with."""
    spoken = {event.topic for event in story.events}
    keys = [item.key for item in story.vocabulary.items]
    rng.shuffle(keys)
    keys.sort(key=lambda key: key not in spoken)
    return {name: keys[at :: len(_CLASSES)] for at, name in enumerate(_CLASSES)}


def _draw_facts(pool: Pool, rng: random.Random) -> tuple[Concept, Concept]:
    """Two facts for the user's standing that the conversation touches, if it touches two."""
    facts = pool.by_kind["say"]
    touched = [fact for fact in facts if fact.hits or fact.related]
    one, two = rng.sample(touched if touched[1:] else facts, 2)
    return one, two


def _concept(kind: str, actor: Role, words: _Words, topic: str, of: Sequence[Concept]) -> Concept:
    """A concept in the framework's words that happens wherever one of several others does."""
    wording = load_words("framework")["phrases"][kind]
    words_of = phrase(wording.format(verb=words.get(kind, ""), topic=topic))
    return merged(of, kind, topic, actor, words_of)


def _of_details(pool: Pool, words: _Words, classes: Mapping[str, Sequence[str]]) -> list[Concept]:
    return [
        _concept(
            kind,
            actor,
            words,
            words[name],
            [c for c in pool.by_kind[kind] if c.topic in classes[name]],
        )
        for name in _CLASSES
        for kind, actor in _DETAIL_ACTS
    ]


def _of_claims(pool: Pool, words: _Words) -> list[Concept]:
    """Claims of third parties; what is said on words put into the chatbot's mouth is not meant."""
    reported = {claim.topic for claim in pool.by_kind["raise"] if claim.hits}
    topic = words["raise"]
    return [
        _concept(kind, actor, words, topic, [c for c in pool.by_kind[kind] if c.topic in reported])
        for kind, actor in _CLAIM_ACTS
    ]


def _standing(words: _Words, facts: tuple[Concept, Concept], either: bool) -> Concept:
    whole = _concept("standing", "user", words, words["standing"], facts)
    said = [fact.hits[0] for fact in facts if fact.hits]
    needed = 1 if either else 2
    hits = sorted(said, key=lambda hit: hit.turn)[needed - 1 : needed]
    return replace(whole, hits=tuple(hits), related=whole.hits + whole.related)


def _surface(story: Story, words: _Words, digits: bool, candle: Concept) -> Concept:
    """Replies that show digits or a question mark, except those of the kind that takes precedence."""
    sign = re.compile(r"\d" if digits else r"\?")
    hits = [
        Hit(turn.number, turn.role, next(s for s in _SENTENCE.split(turn.text) if sign.search(s)))
        for turn in story.turns
        if turn.role == "chatbot" and sign.search(turn.text)
    ]
    return replace(
        _concept("surface", "chatbot", words, words["surface"], ()),
        hits=tuple(hit for hit in hits if hit.turn not in candle.turns),
        related=tuple(hit for hit in hits if hit.turn in candle.turns),
    )


def _tone(story: Story, words: _Words) -> Concept:
    """Messages without a question mark."""
    hits = [
        Hit(turn.number, turn.role, turn.text)
        for turn in story.turns
        if turn.role == "user" and "?" not in turn.text
    ]
    return replace(_concept("tone", "user", words, words["tone"], ()), hits=tuple(hits))


def _debt(pool: Pool, words: _Words, span: int) -> Concept:
    """Announcements after which the detail is not stated in full in time."""
    full = {concept.topic: concept.turns for concept in pool.by_kind["full"]}
    unpaid: list[Hit] = []
    paid: list[Hit] = []
    for concept in pool.by_kind["announce"]:
        for hit in concept.hits:
            due = range(hit.turn + 1, hit.turn + span + 1)
            (paid if set(full[concept.topic]) & set(due) else unpaid).append(hit)
    concept = _concept("debt", "chatbot", words, words["debt"], pool.by_kind["announce"])
    return replace(
        concept, hits=tuple(sorted(unpaid, key=lambda hit: hit.turn)), related=tuple(paid)
    )


def _draw_anchor(concepts: Sequence[Concept], length: int, rng: random.Random) -> Concept:
    """What begins the second phase, if possible neither early nor late."""
    middle = [c for c in concepts if c.turns and 4 <= c.turns[0] <= length - 3]
    return rng.choice(middle or list(concepts))


def _by_phase(
    concepts: Sequence[Concept], words: _Words, anchor: Concept, length: int
) -> list[Concept]:
    start = anchor.turns[0] if anchor.turns else length + 1
    phases = ((words["first"], 1, start - 1), (words["second"], start, length))
    return [
        within(concept, first, last, f"the {name}")
        for name, first, last in phases
        for concept in concepts
        if concept.kind in _BY_PHASE
    ]
