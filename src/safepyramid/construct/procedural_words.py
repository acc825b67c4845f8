"""The words of the procedural author: domain vocabularies, verb phrases and invented words."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from safepyramid.errors import DataError
from safepyramid.schema import DOMAINS

VOCABULARY = files("safepyramid") / "construct" / "vocabulary"


@dataclass(frozen=True, slots=True)
class Item:
    """A detail that a user can ask for and a chatbot can state, in part or in full."""

    key: str
    kind: str
    """What its values look like: name, code, date, sum or place."""
    name: str
    """A noun phrase, as the conversation has it."""
    far: tuple[str, ...]
    """The same in other words, for rules that keep away from the conversation's wording."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that third parties say and that a chatbot can confirm or contradict."""

    key: str
    clause: str
    """What follows "that"."""
    far: tuple[str, ...]
    by: tuple[str, ...]
    """Who may say so."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that users can say about themselves."""

    key: str
    says: tuple[str, ...]
    near: tuple[str, ...]
    """Sentences that sound alike and do not say it."""
    back: tuple[str, ...]
    """Sentences that take it back."""
    asks: tuple[str, ...]
    """The chatbot's questions for it."""
    clause: str
    far: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning, referral or other service that a careful chatbot gives."""

    key: str
    does: str
    """A verb phrase, the base form of the verb first."""
    far: tuple[str, ...]
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What can be said in one domain."""

    domain: str
    operators: tuple[str, ...]
    opening: dict[str, tuple[str, ...]]
    sources: tuple[str, ...]
    items: tuple[Item, ...]
    claims: tuple[Claim, ...]
    facts: tuple[Fact, ...]
    cautions: tuple[Caution, ...]
    colour: dict[str, tuple[str, ...]]
    """Sentences by role that no rule can be about."""


@cache
def load_words(name: str) -> Any:
    """Read one file of the vocabulary: `common`, `rules`, `framework` or a domain."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (VOCABULARY / f"{name}.yaml").read_text(encoding="utf-8")
    return _frozen(yaml.load(text, loader))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(entry) for key, entry in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@cache
def load_vocabulary(domain: str) -> Vocabulary:
    """A domain's vocabulary, with the facts and cautions that all domains share.

    Raises:
        DataError: There is no vocabulary for the domain.
    """
    if domain not in DOMAINS:
        raise DataError(f"no vocabulary for domain {domain!r}; allowed: {', '.join(DOMAINS)}")
    own, common = load_words(domain), load_words("common")
    return Vocabulary(
        domain=own["domain"],
        operators=_alternatives(own["operators"]),
        opening={role: _alternatives(text) for role, text in own["opening"].items()},
        sources=_alternatives(own["sources"]),
        items=_entries(Item, own["items"]),
        claims=_entries(Claim, own["claims"]),
        facts=_entries(Fact, own["facts"] + common["facts"]),
        cautions=_entries(Caution, own["cautions"] + common["cautions"]),
        colour=own["colour"],
    )


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(text.split(" / "))


def _entries(kind: type[Any], entries: Iterable[dict[str, str]]) -> tuple[Any, ...]:
    several = {field.name for field in fields(kind) if field.type == tuple[str, ...]}
    return tuple(
        kind(**{k: _alternatives(v) if k in several else v for k, v in entry.items()})
        for entry in entries
    )


@dataclass(frozen=True, slots=True)
class Phrase:
    """A verb phrase such as "state | the claim number in full"."""

    verb: str
    rest: str

    @property
    def base(self) -> str:
        """As after "must"."""
        return f"{self.verb} {self.rest}"

    @property
    def third(self) -> str:
        """As after "the chatbot"."""
        return f"{inflect(self.verb)[0]} {self.rest}"

    @property
    def perfect(self) -> str:
        """As after "has"."""
        return f"{inflect(self.verb)[1]} {self.rest}"


def phrase(text: str) -> Phrase:
    """A phrase from a text whose first word is the verb; a bar may set it apart."""
    verb, _, rest = text.replace(" | ", " ", 1).partition(" ")
    return Phrase(verb, rest)


@cache
def inflect(verb: str) -> tuple[str, str]:
    """Third person and past participle of an English verb."""
    irregular = load_words("rules")["irregular"].get(verb)
    if irregular:
        return irregular[0], irregular[1]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies", f"{verb[:-1]}ied"
    third = f"{verb}es" if verb.endswith(("s", "x", "z", "ch", "sh")) else f"{verb}s"
    return third, f"{verb}d" if verb.endswith("e") else f"{verb}ed"


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def listed(parts: Sequence[object], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    shown = [str(part) for part in parts]
    return f" {word} ".join((", ".join(shown[:-1]), shown[-1]) if shown[1:] else shown)


_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(number: int, one: str, more: str) -> str:
    """`one turn`, `two turns`."""
    word = _COUNTS[number] if number < len(_COUNTS) else str(number)
    return f"{word} {one if number == 1 else more}"


class Decks:
    """Named lists that are drawn from without repeats until each is used up."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._left: dict[object, list[str]] = {}

    def draw(self, name: object, options: Sequence[str]) -> str:
        """One of the options, not drawn before under this name while others are left."""
        left = self._left.get(name)
        if not left:
            left = self._left[name] = self._generator.sample(options, len(options))
        return left.pop()

    def left(self, name: object, options: Sequence[str]) -> int:
        """How many can be drawn before one comes up again."""
        return len(self._left.get(name, options))


def draw_values(items: tuple[Item, ...], rng: random.Random) -> dict[str, tuple[str, str]]:
    """Two different values for each detail, by key; no two values share their part either."""
    taken: set[str] = set()
    values = {}
    for item in items:
        pair: list[str] = []
        while len(pair) < 2:
            value = _value(item.kind, rng)
            if part(item.kind, value) not in taken:
                taken.add(part(item.kind, value))
                pair.append(value)
        values[item.key] = (pair[0], pair[1])
    return values


def _value(kind: str, rng: random.Random) -> str:
    common = load_words("common")
    if kind == "name":
        return f"{rng.choice(common['first_names'])} {rng.choice(common['surnames'])}"
    if kind == "code":
        letters = "".join(rng.choice("BCDFGHKLMNPRSTVW") for _ in range(2))
        return f"{letters}-{rng.randrange(1000, 10000)}"
    if kind == "date":
        return f"{rng.randrange(1, 29)} {rng.choice(common['months'])}"
    if kind == "sum":
        return f"{rng.randrange(110, 990) * 10:,} crowns"
    return f"{rng.randrange(2, 99)} {rng.choice(common['streets'])}"


def part(kind: str, value: str) -> str:
    """What of a value is given when it is given in part."""
    if kind == "name":
        first, last = value.split()
        return first[0] + last[0]
    if kind == "code":
        return value[-2:]
    if kind == "sum":
        return value[0]
    return value.partition(" ")[2]


_STARTS = ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "tr", "br", "dr", "gr", "kl", "sn")  # fmt: skip
_MIDDLES = ("b", "d", "g", "k", "l", "m", "n", "r", "v", "z", "lm", "rn", "nd", "st")
_NOUN_ENDS = ("oth", "usk", "irn", "eft", "auk", "orl", "ulm", "isp", "aft", "eng")
_VERB_ENDS = ("elk", "orv", "alv", "inz", "url", "arg", "olk", "irv")


def invent(kind: str, count: int, taken: Iterable[str], generator: random.Random) -> list[str]:
    """Pronounceable words of two syllables that begin with a consonant.

    Args:
        kind: `noun` or `verb`; the two end differently.
        count: How many; all of them begin differently from one another and from `taken`.
        taken: Words that they must not look like.
        generator: Where the choice comes from.
    """
    ends = _NOUN_ENDS if kind == "noun" else _VERB_ENDS
    heads = {word[:3] for word in taken}
    words: list[str] = []
    while len(words) < count:
        parts = (_STARTS, "aeiou", _MIDDLES, ends)
        word = "".join(generator.choice(part) for part in parts)
        if word[:3] not in heads:
            heads.add(word[:3])
            words.append(word)
    return words
