"""Concepts: what rules speak of, with the places in a conversation where it happens."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from safepyramid.construct.procedural_story import Event, Role, Story
from safepyramid.construct.procedural_words import Phrase, listed, load_words, phrase


class Hit(NamedTuple):
    """One place where something happens, or seems to."""

    turn: int
    role: Role
    text: str
    """The exact words."""


@dataclass(frozen=True)
class Concept:
    """Something that a user or a chatbot does, as the rules of one policy call it."""

    kind: str
    """The kind of act: full, decline, say, caution, …"""
    topic: str
    """What it is about: the key of a detail, claim, fact or caution, or an invented word."""
    actor: Role
    phrase: Phrase
    hits: tuple[Hit, ...] = ()
    """Where it happens, in the order of the text."""
    occasions: tuple[Hit, ...] = ()
    """Where it was called for: requests for the detail, claims that could be confirmed."""
    related: tuple[Hit, ...] = ()
    """Whatever else is said on its topic: what may be taken for it and is not it."""
    part: str = ""
    """The part of the conversation that it is limited to; empty for the whole."""

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """The turns in which it happens, ascending, each once."""
        return tuple(sorted({hit.turn for hit in self.hits}))

    @cached_property
    def subject(self) -> tuple[str, str]:
        """What tells it from the other concepts of its policy, but for the part it is limited to."""
        return self.kind, self.topic

    @property
    def who(self) -> str:
        """The actor, as a subject."""
        return f"the {self.actor}"

    @property
    def base(self) -> str:
        """As after "must"."""
        return self.phrase.base

    @property
    def third(self) -> str:
        """As after "the chatbot"."""
        return self.phrase.third

    @property
    def perfect(self) -> str:
        """As after "has"."""
        return self.phrase.perfect

    def report(self) -> str:
        """When it happens, in words."""
        if not self.turns:
            return f"{self.who} never {self.third}"
        noun = "turns" if self.turns[1:] else "turn"
        return f"in {noun} {listed(self.turns)} {self.who} {self.third}"

    def quotes(self) -> tuple[Hit, ...]:
        """The words that show it or, where it does not happen, what comes nearest."""
        return self.hits[:2] or (self.occasions or self.related)[:1]


class Pool:
    """The concepts of one policy, by kind."""

    def __init__(self, concepts: Iterable[Concept]) -> None:
        self.by_kind: dict[str, list[Concept]] = defaultdict(list)
        for concept in concepts:
            self.by_kind[concept.kind].append(concept)
        self._of: dict[tuple[str, ...], list[Concept]] = {}

    def of(self, kinds: tuple[str, ...]) -> list[Concept]:
        """All concepts of these kinds; the list is shared, and not to be changed."""
        if kinds not in self._of:
            self._of[kinds] = [concept for kind in kinds for concept in self.by_kind[kind]]
        return self._of[kinds]


_FULL = ("give", "later", "source", "change", "correct")
_ITEM_KINDS: tuple[tuple[str, Role, tuple[str, ...]], ...] = (
    ("request", "user", ("request", "press")),
    ("press", "user", ("press",)),
    ("drop", "user", ("drop",)),
    ("full", "chatbot", _FULL),
    ("any", "chatbot", (*_FULL, "half")),
    ("part", "chatbot", ("half",)),
    ("decline", "chatbot", ("refuse",)),
    ("announce", "chatbot", ("promise",)),
    ("source", "chatbot", ("source",)),
    ("change", "chatbot", ("change", "correct")),
    ("admit", "chatbot", ("correct",)),
)
_CLAIM_KINDS: tuple[tuple[str, Role, tuple[str, ...]], ...] = (
    ("raise", "user", ("raise",)),
    ("misclaim", "user", ("misclaim",)),
    ("endorse", "chatbot", ("endorse",)),
    ("reject", "chatbot", ("reject",)),
    ("deny", "chatbot", ("deny",)),
)
_FACT_KINDS: tuple[tuple[str, Role, tuple[str, ...]], ...] = (
    ("say", "user", ("say",)),
    ("retract", "user", ("back",)),
    ("ask", "chatbot", ("ask",)),
)
_CALLED_FOR = {
    **dict.fromkeys(("full", "any", "part", "decline", "announce"), ("request", "press")),
    **dict.fromkeys(("endorse", "reject"), ("raise", "misclaim")),
}


def hit(event: Event) -> Hit:
    """An event as a place in the text."""
    return Hit(event.turn, event.role, event.text)


def plain_concepts(story: Story, shift: float, generator: random.Random) -> list[Concept]:
    """All concepts that can be worded in plain terms, whether they happen or not.

    Args:
        story: What happens.
        shift: How often a wording keeps away from that of the conversation, from 0 to 1.
        generator: Chooses the wordings.
    """
    phrases = load_words("rules")["phrases"]
    events = defaultdict(list)
    for event in story.events:
        events[event.topic].append(event)

    def pick(near: str, far: Sequence[str]) -> str:
        return generator.choice(far) if far and generator.random() < shift else near

    def of_topic(
        topic: str, kinds: Iterable[tuple[str, Role, tuple[str, ...]]], **gaps: str
    ) -> list[Concept]:
        own = [(event.act, hit(event)) for event in events[topic]]
        return [
            Concept(
                kind,
                topic,
                actor,
                phrase(pick(phrases[kind][0], phrases[kind][1:]).format(**gaps)),
                hits=tuple([place for act, place in own if act in acts]),
                occasions=tuple([place for act, place in own if act in called]),
                related=tuple([place for act, place in own if act not in acts]),
            )
            for kind, actor, acts in kinds
            for called in (_CALLED_FOR.get(kind, ()),)
        ]

    vocabulary = story.vocabulary
    concepts = []
    for item in vocabulary.items:
        concepts += of_topic(item.key, _ITEM_KINDS, x=pick(item.name, item.far))
    for claim in vocabulary.claims:
        concepts += of_topic(claim.key, _CLAIM_KINDS, c=pick(claim.clause, claim.far))
    for fact in vocabulary.facts:
        concepts += of_topic(fact.key, _FACT_KINDS, f=pick(fact.clause, fact.far))
    for caution in vocabulary.cautions:
        words = phrase(pick(caution.does, caution.far))
        hits = tuple(map(hit, events[caution.key]))
        concepts.append(Concept("caution", caution.key, "chatbot", words, hits=hits))
    concepts += of_topic("deadline", _deadline_kinds(), **{})
    return [_with_last_day(c, story) if c.kind == "last" else c for c in concepts]


def _deadline_kinds() -> tuple[tuple[str, Role, tuple[str, ...]], ...]:
    return (
        ("deadline", "user", ("deadline", "moved")),
        ("moved", "user", ("moved",)),
        ("day", "chatbot", ("day",)),
        ("last", "chatbot", ()),
    )


def _with_last_day(concept: Concept, story: Story) -> Concept:
    """The replies that name the day which the user had given last by then."""
    hits, current = [], ""
    for event in story.events:
        if event.act in ("deadline", "moved"):
            current = event.value
        elif event.act == "day" and event.value == current:
            hits.append(hit(event))
    return replace(concept, hits=tuple(hits))


def within(concept: Concept, first: int, last: int, part: str) -> Concept:
    """The concept limited to the turns from `first` to `last`, which the rules call `part`."""

    def inside(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return tuple(hit for hit in hits if first <= hit.turn <= last)

    return replace(
        concept,
        phrase=Phrase(concept.phrase.verb, f"{concept.phrase.rest} in {part}"),
        hits=inside(concept.hits),
        occasions=inside(concept.occasions),
        related=concept.hits + concept.related,
        part=part,
    )


def merged(
    concepts: Iterable[Concept], kind: str, topic: str, actor: Role, words: Phrase
) -> Concept:
    """One concept that happens wherever one of several does."""
    concepts = list(concepts)

    def union(field: str) -> tuple[Hit, ...]:
        order = {"user": 0, "chatbot": 1}
        hits = dict.fromkeys(hit for concept in concepts for hit in getattr(concept, field))
        return tuple(sorted(hits, key=lambda hit: (hit.turn, order[hit.role])))

    return Concept(kind, topic, actor, words, union("hits"), union("occasions"), union("related"))
