"""Procedural policies: base rules drawn from a conversation, modifiers worded to plan."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from safepyramid.construct.procedural_concepts import Concept, Hit, Pool
from safepyramid.construct.procedural_plan import Link, Root, net
from safepyramid.construct.procedural_rules import (
    FORBIDDING,
    Base,
    Formula,
    Shape,
    draw_atom,
    draw_standard,
    judge,
)
from safepyramid.construct.procedural_words import load_words, sentence
from safepyramid.construct.source import Quote, SourceRule
from safepyramid.errors import DataError
from safepyramid.schema import RuleType

_CONDITION_KINDS = (
    "say", "retract", "request", "press", "drop", "raise", "misclaim", "deadline", "moved", "full",
    "part", "decline", "announce", "endorse", "caution", "ask", "standing", "reject", "debt",
    "surface", "tone",
)  # fmt: skip
_REQUIRED = ("caution", "decline", "reject", "ask", "day", "part")
_FORBIDDEN = ("full", "any", "announce", "endorse", "debt", "surface")
_STATING = frozenset(("full", "any", "part"))
_NEAR = 0.85
"""Share of distractors that speak of what the conversation touches."""
_AGAINST = 0.4
"""Share of standards that forbid something."""
_NOTES = 0.25
"""Share of modifiers with a note of what they override."""
_TRIES = 3000
"""Draws for the base rules of a policy, for a trigger or for a standard."""
_ATTEMPTS = 20
"""Fresh starts for the base rules, if the draws do not give as many as are wanted."""


class Draft(NamedTuple):
    """A base rule with its type."""

    type: RuleType
    rule: Base

    @property
    def root(self) -> Root:
        """What a plan of modifiers needs to know of it."""
        return Root(self.type, self.rule.value.broken)


@dataclass(frozen=True, slots=True)
class Setting:
    """The conversation that the rules of a policy are about."""

    pool: Pool
    """What rules can speak of."""
    conditions: tuple[int, ...]
    """How many conditions a trigger may have."""
    length: int
    """Exchanges."""
    opening: Hit
    """What is quoted for rules about things that are never spoken of."""


def draw_bases(
    pool: Pool, shapes: Sequence[Shape], quota: Counter[str], rng: random.Random
) -> list[Draft]:
    """Draw base rules.

    No two of them demand and forbid the same, and none says again what another says.

    Args:
        pool: What they can speak of.
        shapes: What they can combine.
        quota: How many are to be `broken`, how many `kept`, and how many `idle`: those are never
            engaged in the conversation, and become the distractors.
        rng: All chance comes from it.

    Raises:
        DataError: The conversation does not give so many.
    """
    for _ in range(_ATTEMPTS):
        drafts = _draw_bases(pool, shapes, Counter(quota), rng)
        if len(drafts) == quota.total():
            rng.shuffle(drafts)
            return drafts
    asked = ", ".join(f"{count} {kind}" for kind, count in quota.items())
    raise DataError(
        f"a conversation does not give so many different base rules ({asked}): "
        "ask for fewer rules, or for more or fewer turns"
    )


def _draw_bases(
    pool: Pool, shapes: Sequence[Shape], wanted: Counter[str], rng: random.Random
) -> list[Draft]:
    """As many of the wanted base rules as turn up; early ones can stand in the way of others."""
    drafts: list[Draft] = []
    duties: dict[tuple[str, str], bool] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for _ in range(_TRIES):
        if not wanted.total():
            break
        rule = _draw_base(pool, rng.choice(shapes), rng)
        if not rule:
            continue
        kind = "broken" if rule.value.broken else "kept" if rule.value.engaged else "idle"
        if not wanted[kind] or (
            kind == "idle" and not _touched(rule.concepts) and rng.random() < _NEAR
        ):
            continue
        forbids = rule.form in FORBIDDING
        subject, against = duty(rule.act, forbids)
        place = ("full" if rule.act.kind == "any" else rule.act.kind, rule.act.topic, rule.act.part)
        said = seen[place] >= (1 if forbids else 2) or seen[*place, rule.form]
        if said or duties.setdefault(subject, against) != against:
            continue
        seen.update((place, (*place, rule.form)))
        wanted[kind] -= 1
        drafts.append(Draft(RuleType.DISTRACTOR if kind == "idle" else RuleType.DECISIVE, rule))
    return drafts


def duty(act: Concept, forbids: bool) -> tuple[tuple[str, str], bool]:
    """What a rule is for or against, and whether it is against it.

    No policy should be both for and against one thing. To decline to state a detail counts as
    being against stating it.
    """
    if act.kind == "decline":
        return ("state", act.topic), not forbids
    return ("state" if act.kind in _STATING else act.kind, act.topic), forbids


def _draw_base(pool: Pool, shape: Shape, rng: random.Random) -> Base | None:
    acts = pool.of(shape.acts)
    if not acts:
        return None
    act = rng.choice(acts)
    if act.part and shape.form not in FORBIDDING:
        return None  # What must be done in time must not also have to be done in one phase.
    if not shape.triggers:
        return judge(shape.form, act, None, rng)
    triggers = [
        concept
        for concept in pool.of(shape.triggers)
        if not shape.same or concept.topic == act.topic
        if concept.subject != act.subject and not concept.part
    ]
    return judge(shape.form, act, rng.choice(triggers), rng) if triggers else None


def _touched(concepts: Iterable[Concept]) -> bool:
    return any(concept.hits or concept.occasions or concept.related for concept in concepts)


def write_rules(
    drafts: Sequence[Draft], links: Sequence[Link], setting: Setting, rng: random.Random
) -> tuple[list[SourceRule], frozenset[str]]:
    """Word the rules of a policy.

    Args:
        drafts: The base rules.
        links: The modifiers.
        setting: The conversation.
        rng: Chooses conditions, standards and wordings.

    Returns:
        The rules in their source form, in the order of drafts and links, and the keys of those
        that are violated together.
    """
    taken: Counter[str] = Counter()
    rules = [_base_rule(draft, taken, setting.opening, rng) for draft in drafts]
    writer = _ModifierWriter(drafts, setting, rng)
    for number, link in enumerate(links, 1):
        root = link
        while root.target >= len(drafts):
            root = links[root.target - len(drafts)]
        base, target = drafts[root.target].rule, rules[link.target]
        rules.append(writer.write(link, f"{link.type}-{number}", target, base))
    violated = net([draft.root for draft in drafts], links)
    return rules, frozenset(rules[at].key for at in violated)


def _base_rule(draft: Draft, taken: Counter[str], opening: Hit, rng: random.Random) -> SourceRule:
    rule = draft.rule
    parts = (rule.form, rule.act.kind, rule.act.topic, rule.act.part)
    key = "-".join(part for part in parts if part).replace("_", "-").replace(" ", "-")
    taken[key] += 1
    return SourceRule(
        key=key if taken[key] == 1 else f"{key}-{taken[key]}",
        type=draft.type,
        text=rule.text(rng),
        broken=rule.value.broken,
        quotes=_quotes([hit for concept in rule.concepts for hit in concept.quotes()], opening),
        reason=sentence(rule.reason()),
    )


def _quotes(hits: Sequence[Hit], opening: Hit) -> tuple[Quote, ...]:
    ordered = sorted(dict.fromkeys(hits), key=lambda hit: (hit.turn, hit.role != "user"))[:4]
    return tuple(map(_quote, ordered or [opening]))


@lru_cache(maxsize=1000)
def _quote(hit: Hit) -> Quote:
    """Many rules of a conversation quote the same words."""
    return Quote(turn=hit.turn, role=hit.role, text=hit.text)


class _ModifierWriter:
    """Finds conditions and standards with the truth values that a plan asks for."""

    def __init__(self, drafts: Sequence[Draft], setting: Setting, rng: random.Random) -> None:
        conditions = setting.pool.of(_CONDITION_KINDS)
        self.seen = [concept for concept in conditions if concept.turns]
        self.seeming = [concept for concept in conditions if not concept.turns and concept.related]
        self.duties = dict(duty(d.rule.act, d.rule.form in FORBIDDING) for d in drafts)
        self.required, self.forbidden = setting.pool.of(_REQUIRED), setting.pool.of(_FORBIDDEN)
        self.setting, self.rng = setting, rng

    def write(self, link: Link, key: str, target: SourceRule, base: Base) -> SourceRule:
        """The modifier of a link to a target that stands, in the end, on a base rule."""
        atoms = self._trigger(link.triggered, base)
        standard = self._standard(link, base, atoms)
        hits = [hit for atom in atoms for hit in atom.quotes()]
        hits += standard.quotes() if link.triggered else ()
        return SourceRule(
            key=key,
            type=link.type,
            modifies=(target.key,),
            note=self.rng.random() < _NOTES,
            text=self._text(link, target, atoms, standard),
            triggered=link.triggered,
            met=link.met if link.triggered else None,
            quotes=_quotes(hits, self.setting.opening),
            reason=_reason(link, atoms, standard),
        )

    def _trigger(self, triggered: bool, base: Base) -> list[Formula]:
        """Conditions that all hold or, for a trigger that fails, all but one."""
        count = self.rng.choice(self.setting.conditions)
        false = -1 if triggered else self.rng.randrange(count)
        topics = {concept.topic for concept in base.concepts}
        both = (self.seen, self.seeming)
        near = [
            [c for c in options if c.topic in topics or c.kind in ("say", "standing")] or options
            for options in both
        ]
        atoms: list[Formula] = []
        used: set[tuple[str, str]] = set()
        for _ in range(_TRIES):
            if len(atoms) == count:
                return atoms
            wanted = len(atoms) != false
            seeming = self.rng.random() < (0.1 if wanted else 0.5)
            options = (near if self.rng.random() < 0.5 else both)[seeming]
            atom = draw_atom(options, wanted, self.setting.length, self.rng) if options else None
            if atom and used.isdisjoint(concept.subject for concept in atom.concepts):
                atoms.append(atom)
                used.update(concept.subject for concept in atom.concepts)
        raise DataError("a conversation gives too few conditions: ask for more turns")

    def _standard(self, link: Link, base: Base, atoms: Sequence[Formula]) -> Formula:
        """A demand that is met or not, and that does not clash with the other rules."""
        used = {concept.subject for atom in atoms for concept in atom.concepts}
        root, _ = duty(base.act, False)
        topics = {concept.topic for concept in base.concepts}

        def fits(concept: Concept, forbids: bool) -> bool:
            subject, against = duty(concept, forbids)
            if concept.subject in used:
                return False
            if subject == root:
                return link.type is RuleType.EXCEPTION
            return self.duties.get(subject, against) == against

        both = (self.required, self.forbidden)
        near = [[c for c in options if c.topic in topics] or options for options in both]
        for _ in range(_TRIES):
            forbids = self.rng.random() < _AGAINST
            concept = self.rng.choice((near if self.rng.random() < 0.5 else both)[forbids])
            if not fits(concept, forbids):
                continue
            standard = draw_standard(concept, forbids, link.met, self.rng)
            if standard and standard.number < self.setting.length:
                return standard
        raise DataError("a conversation gives too few standards: ask for more turns")

    def _text(
        self, link: Link, target: SourceRule, atoms: Sequence[Formula], standard: Formula
    ) -> str:
        marked = [
            f"({letter}) {atom.text(self.rng, 'atoms')}"
            for letter, atom in zip("abcde", atoms, strict=False)
        ]
        conditions = ", ".join(marked[:-1]) + ("," if marked[2:] else "") + f" and {marked[-1]}"
        name = f"{link.type}_to_{target.type}" if target.type.is_modifier else link.type.value
        wording: str = self.rng.choice(load_words("rules")[name])
        return wording.format(
            conditions=conditions,
            target=f"[[{target.key}]]",
            standard=standard.text(self.rng, "standards"),
        )


def _reason(link: Link, atoms: Sequence[Formula], standard: Formula) -> str:
    parts = [
        f"({letter}) {'holds' if atom.true else 'fails'}, as {atom.report()}"
        for letter, atom in zip("abcde", atoms, strict=False)
    ]
    if link.triggered:
        parts.append(f"the standard is {'met' if link.met else 'not met'}, as {standard.report()}")
    return f"{'; '.join(parts)}."
