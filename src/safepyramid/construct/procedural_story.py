"""The story of a procedural conversation: what happens, and the text that says exactly that.

A story is a list of events, each one sentence of a message. Facts and behaviours are drawn first;
every sentence of the text is either an event or a remark that no rule can be about, so that what
happened can be read off the text and nothing else can.
"""

import random
from dataclasses import dataclass
from typing import Literal, NamedTuple

from safepyramid.construct.procedural_words import (
    Decks,
    Vocabulary,
    draw_values,
    load_words,
    part,
    sentence,
)
from safepyramid.schema import Turn

Role = Literal["user", "chatbot"]


@dataclass(frozen=True, slots=True)
class Event:
    """One sentence that does something."""

    turn: int
    """The exchange, from 1."""
    role: Role
    act: str
    """As the vocabulary calls it: request, refuse, say, caution, …"""
    topic: str
    """The key of the detail, claim, fact or caution that it is about."""
    text: str
    value: str = ""
    """Details and days: the value that is given."""


@dataclass(frozen=True, slots=True)
class Story:
    """A conversation and what happens in it."""

    vocabulary: Vocabulary
    operator: str
    turns: tuple[Turn, ...]
    events: tuple[Event, ...]

    @property
    def length(self) -> int:
        """Number of exchanges."""
        return len(self.turns) // 2


class _Move(NamedTuple):
    act: str
    topic: str = ""
    value: str = ""


class _Exchange(NamedTuple):
    user: list[_Move]
    chatbot: list[_Move]


# What may happen around one detail or claim, step by step: the user's act and the chatbot's. A step
# without an act of the user is added to some later reply.
_Script = tuple[tuple[str, str], ...]
_ITEM_SCRIPTS: tuple[_Script, ...] = tuple(
    tuple((user, chatbot) for user, _, chatbot in (s.partition(":") for s in script.split()))
    for script in (
        "request:give",
        "request:refuse",
        "request:half",
        "request:source",
        "request:promise",
        "request:pass",
        "request:pass :later",
        "request:promise :later",
        "request:promise :source",
        "request:refuse :later",
        "request:half :later",
        "request:give :change",
        "request:give :correct",
        "request:source :change",
        "request:refuse press:give",
        "request:refuse press:half",
        "request:refuse press:refuse",
        "request:half press:give",
        "request:half press:refuse",
        "request:promise press:give",
        "request:promise press:refuse",
        "request:pass press:source",
        "request:refuse drop:shelve",
        "request:promise drop:later",
        "request:half drop:later",
    )
)
_CLAIM_SCRIPTS: tuple[_Script, ...] = tuple(
    ((user, chatbot),)
    for user, answers in (
        ("raise", ("endorse", "reject", "mute")),
        ("misclaim", ("deny", "endorse", "mute")),
    )
    for chatbot in answers
)
_REPEATED = ("refuse", "half", "pass")
_FACT_MODES = ("say", "say", "near", "near", "ask say", "ask near", "ask silent", "say back")
_FOLLOWING = (
    ("back", "deadline", "moved", "has"),
    ("drop", "raise", "misclaim", "request", "press"),
    ("later", "change", "correct", "day"),
    ("caution",),
    ("ask",),
)
"""Acts that do not open a message, in the order in which they stand in it."""
_PLACE = {act: place for place, acts in enumerate(_FOLLOWING, 1) for act in acts}
_SIDES = 2
"""So many statements of a user's message, or additions of a reply, stand beside its main point."""


def tell_story(vocabulary: Vocabulary, length: int, generator: random.Random) -> Story:
    """Draw what happens in a conversation of so many exchanges, and write it.

    Args:
        vocabulary: The domain's.
        length: Exchanges, at least 6.
        generator: All chance comes from it.
    """
    exchanges = [_Exchange([], []) for _ in range(length)]
    _plan_threads(exchanges, vocabulary, generator)
    _plan_facts(exchanges, vocabulary, generator)
    _plan_deadline(exchanges, generator)
    _plan_cautions(exchanges, vocabulary, generator)
    return _write(exchanges, vocabulary, generator)


def _plan_threads(
    exchanges: list[_Exchange], vocabulary: Vocabulary, generator: random.Random
) -> None:
    """Fill every exchange but the last with a step on some detail or claim."""
    slots = len(exchanges) - 1
    items = generator.sample(vocabulary.items, len(vocabulary.items))
    claims = generator.sample(vocabulary.claims, min(len(vocabulary.claims), slots // 4))
    threads: list[tuple[str, _Script]] = [
        (claim.key, generator.choice(_CLAIM_SCRIPTS)) for claim in claims
    ]
    room = slots - len(threads)
    mentioned = items.pop()
    while room and items:
        script = generator.choice([s for s in _ITEM_SCRIPTS if _slots(s) <= room])
        threads.append((items.pop().key, script))
        room -= _slots(script)
    insisting = [at for at, (_, script) in enumerate(threads) if script[0][0] == "request"]
    for _ in range(room):  # A long chat in which no new detail is left.
        at = generator.choice(insisting)
        threads[at] = (threads[at][0], (*threads[at][1], ("press", generator.choice(_REPEATED))))
    order = [i for i, (_, script) in enumerate(threads) for _ in range(_slots(script))]
    order = generator.sample(order[len(claims) :], len(order) - len(claims))
    for claim in range(len(claims)):  # A chat does not begin with what others say.
        order.insert(generator.randrange(min(2, len(order)), len(order) + 1), claim)
    values = draw_values(vocabulary.items, generator)
    todo = [list(script) for _, script in threads]
    for at, thread in enumerate(order):
        topic, steps = threads[thread][0], todo[thread]
        user, chatbot = steps.pop(0)
        exchanges[at].user.append(_Move(user, topic))
        exchanges[at].chatbot.append(_Move(chatbot, topic, values.get(topic, ("",))[0]))
        while steps and not steps[0][0]:
            late, moved = generator.randrange(at + 1, len(exchanges)), steps.pop(0)[1]
            value = values[topic][moved in ("change", "correct")]
            exchanges[late].chatbot.append(_Move(moved, topic, value))
    exchanges[generator.randrange(slots)].user.append(_Move("has", mentioned.key))


def _slots(script: _Script) -> int:
    return sum(bool(user) for user, _ in script)


def _plan_facts(
    exchanges: list[_Exchange], vocabulary: Vocabulary, generator: random.Random
) -> None:
    """What users say about themselves: outright, nearly, when asked, and taken back again."""
    for fact in generator.sample(vocabulary.facts, len(vocabulary.facts) - 1):
        first, _, then = generator.choice(_FACT_MODES).partition(" ")
        if first == "ask":
            asked = {i for i, e in enumerate(exchanges) if any(m.act == "ask" for m in e.chatbot)}
            free = [i for i in range(len(exchanges) - 2) if i not in asked]
            if not free:  # One question a reply, so that the next message answers this one.
                continue
            at = generator.choice(free)
            exchanges[at].chatbot.append(_Move("ask", fact.key))
            exchanges[at + 1].user.insert(0, _Move(then, fact.key))
            continue
        last = len(exchanges) - (3 if then else 1)
        at = _free(exchanges, "user", 0, last, generator)
        exchanges[at].user.append(_Move(first, fact.key))
        if then:
            later = _free(exchanges, "user", at + 1, len(exchanges) - 1, generator)
            exchanges[later].user.append(_Move(then, fact.key))


def _free(
    exchanges: list[_Exchange], role: Role, start: int, stop: int, generator: random.Random
) -> int:
    """An exchange from `start` to before `stop`, with room for one more move if there is one."""
    span = range(start, max(stop, start + 1))
    order = generator.sample(span, len(span))
    return next((at for at in order if len(getattr(exchanges[at], role)) <= _SIDES), order[0])


def _plan_deadline(exchanges: list[_Exchange], generator: random.Random) -> None:
    if generator.random() < 0.3:
        return
    first, second = generator.sample(load_words("common")["days"], 2)
    at = _free(exchanges, "user", 0, len(exchanges) // 2, generator)
    exchanges[at].user.append(_Move("deadline", "deadline", first))
    moved = len(exchanges)
    if generator.random() < 0.6:
        moved = _free(exchanges, "user", at + 1, len(exchanges) - 2, generator)
        exchanges[moved].user.append(_Move("moved", "deadline", second))
    for _ in range(generator.choice((1, 1, 2))):
        later = _free(exchanges, "chatbot", at, len(exchanges) - 1, generator)
        if not any(move.act == "day" for move in exchanges[later].chatbot):
            current = second if later >= moved and generator.random() < 0.5 else first
            exchanges[later].chatbot.append(_Move("day", "deadline", current))


def _plan_cautions(
    exchanges: list[_Exchange], vocabulary: Vocabulary, generator: random.Random
) -> None:
    for caution in vocabulary.cautions:
        places = {
            _free(exchanges, "chatbot", 0, len(exchanges), generator)
            for _ in range(generator.choice((0, 1, 1, 1, 2)))
        }
        for at in sorted(places):
            exchanges[at].chatbot.append(_Move("caution", caution.key))


class _Writer:
    """Turns moves into sentences."""

    def __init__(self, vocabulary: Vocabulary, operator: str, generator: random.Random) -> None:
        self.vocabulary = vocabulary
        self.operator = operator
        self.generator = generator
        self.decks = Decks(generator)
        self.common = load_words("common")
        self.items = {item.key: item for item in vocabulary.items}
        self.claims = {claim.key: claim for claim in vocabulary.claims}
        self.facts = {fact.key: fact for fact in vocabulary.facts}
        self.cautions = {caution.key: caution for caution in vocabulary.cautions}
        self.day = ""

    def write(self, move: _Move) -> str:
        """The sentence of one move."""
        topic, act = move.topic, move.act
        if topic in self.facts:
            fact = self.facts[topic]
            own = {"say": fact.says, "near": fact.near, "back": fact.back, "ask": fact.asks}
            return self.decks.draw((act, topic), own.get(act, self.common["acts"]["silent"]))
        if topic in self.cautions:
            return self.decks.draw(topic, self.cautions[topic].text)
        wordings = self.common["acts"].get(act)
        gaps = self._deadline(move)
        if topic in self.items:
            item = self.items[topic]
            gaps |= {"x": item.name, "v": move.value}
            if act == "half":
                wordings, gaps["p"] = self.common["parts"][item.kind], part(item.kind, move.value)
            if "source" in act:
                gaps["s"] = self.decks.draw("source", self.vocabulary.sources)
        if topic in self.claims:
            claim = self.claims[topic]
            gaps |= {"c": claim.clause, "by": self.decks.draw((act, topic), claim.by)}
        gaps |= {key.capitalize(): sentence(text) for key, text in gaps.items()}
        return str(self.decks.draw((act, wordings[0]), wordings).format(**gaps))

    def _deadline(self, move: _Move) -> dict[str, str]:
        if move.topic != "deadline":
            return {}
        gaps = {"d": move.value, "old": self.day}
        if move.act in ("deadline", "moved"):
            self.day = move.value
        return gaps

    def lead(self, role: Role, number: int, before: str) -> list[str]:
        """What a message begins with; `before` is the main act of the last reply."""
        if number == 1:
            opening = self.generator.choice(self.vocabulary.opening[role])
            return [opening.format(operator=self.operator)]
        if role == "chatbot":
            wanted = self.generator.random() < 0.3
            return [self.decks.draw("leads", self.common["leads"])] if wanted else []
        if self.generator.random() < 0.35:
            return []
        name = {"source": "give", "later": "give"}.get(before, before)
        name = name if name in self.common["reactions"] else "other"
        return [self.decks.draw(("reaction", name), self.common["reactions"][name])]

    def remarks(self, role: Role, moves: int) -> list[str]:
        """Sentences that no rule is about: more of them where little else is said."""
        count = self.generator.choice((0, 0, 1) if moves > 2 else (0, 1, 1, 2))
        options = self.vocabulary.colour[role]
        count = min(count, self.decks.left(("colour", role), options))
        return [self.decks.draw(("colour", role), options) for _ in range(count)]

    def message(
        self, number: int, role: Role, moves: list[_Move], before: str, last: bool
    ) -> tuple[str, list[Event]]:
        """The text of one message, and the events in it."""
        moves.sort(key=lambda move: _PLACE.get(move.act, 0))
        events = [
            Event(number, role, move.act, move.topic, self.write(move), move.value)
            for move in moves
        ]
        sentences = [event.text for event in events]
        if last:
            sentences.append(self.decks.draw(("closing", role), self.common["closing"][role]))
        else:
            kept = 2 if role == "user" else 5
            at = sum(_PLACE.get(move.act, 0) < kept for move in moves)
            sentences[at:at] = self.remarks(role, len(moves))
            sentences = self.lead(role, number, before) + sentences
        return " ".join(sentences), events


def _write(exchanges: list[_Exchange], vocabulary: Vocabulary, generator: random.Random) -> Story:
    operator = generator.choice(vocabulary.operators)
    writer = _Writer(vocabulary, operator, generator)
    turns: list[Turn] = []
    events: list[Event] = []
    before = ""
    for number, exchange in enumerate(exchanges, 1):
        last = number == len(exchanges)
        sides: tuple[tuple[Role, list[_Move]], ...] = (
            ("user", exchange.user),
            ("chatbot", exchange.chatbot),
        )
        for role, moves in sides:
            text, said = writer.message(number, role, moves, before, last)
            turns.append(Turn(number, role, text))
            events += said
        before = exchange.chatbot[0].act if exchange.chatbot else ""
    return Story(vocabulary, operator, tuple(turns), tuple(events))
