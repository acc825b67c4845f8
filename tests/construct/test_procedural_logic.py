"""The procedural author's logic: formulas, plans of modifiers, frameworks."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.construct.procedural import Knobs, author
from safepyramid.construct.procedural_concepts import Concept, Hit, Pool, plain_concepts
from safepyramid.construct.procedural_framework import draw_framework
from safepyramid.construct.procedural_plan import Link, Root, net, plan_links
from safepyramid.construct.procedural_rules import (
    FORMS,
    PLAIN_SHAPES,
    TERM_SHAPES,
    draw_atom,
    draw_standard,
    judge,
)
from safepyramid.construct.procedural_story import tell_story
from safepyramid.construct.procedural_words import (
    Phrase,
    inflect,
    load_vocabulary,
    load_words,
    phrase,
)
from safepyramid.errors import DataError
from safepyramid.schema import Level, RuleType

FULL = ("give", "later", "source", "change", "correct")


# Formulas, against a second reading of what they mean.


def concept(kind, turns, actor="chatbot", occasions=()):
    return Concept(
        kind,
        kind,
        actor,
        Phrase("do", kind),
        hits=tuple(Hit(turn, actor, kind) for turn in turns),
        occasions=tuple(Hit(turn, "user", kind) for turn in occasions),
    )


def moment(turn, actor):
    """A place in the order of the chat: the message of a turn comes before its reply."""
    return 2 * turn + (actor == "chatbot")


def broken_by_definition(form, act, trigger, number):
    """The forms once more, each quantified over all moments instead of first turns."""
    acts = [moment(t, act.actor) for t in act.turns]
    triggers = [moment(t, trigger.actor) for t in trigger.turns] if trigger else []
    if form == "never":
        return acts != []
    if form in ("not_before", "unless"):  # Within one reply there is no order.
        return any(not any(u <= a for u in triggers) for a in acts)
    if form == "not_after":
        return any(u < a for u in triggers for a in acts)
    if form == "at_most":
        return len(set(acts)) > number
    if form == "reply":
        return any(all(a // 2 != u // 2 for a in acts) for u in triggers)
    if form == "later":
        return bool(triggers) and not any(min(triggers) < a for a in acts)
    if form == "within":
        return bool(triggers) and not any(
            min(triggers) < a and a // 2 - min(triggers) // 2 <= number for a in acts
        )
    return not any(a // 2 <= number for a in acts)


SEEDS = st.integers(0, 10_000)
TURNS = st.frozensets(st.integers(1, 8), max_size=4)


@given(
    form=st.sampled_from(sorted(FORMS)),
    acts=TURNS,
    triggers=TURNS,
    occasions=TURNS,
    actor=st.sampled_from(["user", "chatbot"]),
    number=st.integers(0, 8),
)
def test_forms_mean_what_they_say(form, acts, triggers, occasions, actor, number):
    act, trigger = concept("act", acts, occasions=occasions), concept("trigger", triggers, actor)
    engaged, broken = FORMS[form](act, trigger, number)
    assert broken == broken_by_definition(form, act, trigger, number)
    assert engaged or not broken


def test_a_situation_that_comes_up_is_engaged_without_the_act():
    asked = concept("full", (), occasions=(3,))
    assert FORMS["never"](asked, None, 0) == (True, False)
    assert FORMS["never"](concept("full", ()), None, 0) == (False, False)


@given(seed=SEEDS, turns=TURNS, wanted=st.booleans())
def test_drawn_conditions_and_standards_have_the_wanted_truth(seed, turns, wanted):
    rng = random.Random(seed)
    c, d = concept("c", turns), concept("d", (2, 5), "user")
    truth = {
        "exists": lambda n: bool(turns),
        "once": lambda n: bool(turns),
        "early": lambda n: bool(turns & set(range(n + 1))),
        "late": lambda n: bool(turns & set(range(n, 99))),
        "twice": lambda n: len(turns) >= 2,
        "absent": lambda n: not turns,
        "never": lambda n: not turns,
        "not_late": lambda n: not turns & set(range(n + 1, 99)),
    }
    drawn = [draw_standard(c, rng.random() < 0.5, wanted, rng) for _ in range(8)]
    drawn += [draw_atom([c, d], wanted, 9, rng) for _ in range(16)]
    for formula in filter(None, drawn):
        assert formula.true == wanted
        if formula.form == "order":
            first, second = (concept.turns for concept in formula.concepts)
            assert (min(first) < min(second)) == wanted
        elif formula.concepts == (c,):
            assert truth[formula.form](formula.number) == wanted


def test_numbers_stand_where_the_verdict_turns():
    rng = random.Random(0)
    act, trigger = concept("full", (6,)), concept("announce", (3,))
    seen = {(r.number, r.value.broken) for r in (judge("within", act, trigger, rng) for _ in range(50))}  # fmt: skip
    assert seen == {(2, True), (3, False)}


def test_every_form_and_shape_is_used_and_worded():
    forms = load_words("rules")["forms"]
    for shapes in (PLAIN_SHAPES, TERM_SHAPES):
        assert {shape.form for shape in shapes} == set(FORMS)
    named = {name.removesuffix("_user").removesuffix("_chatbot") for name in forms}
    assert named == set(FORMS)


# Plans of modifiers.


def chain(*links):
    """Modifiers one upon another on rule 0, each with its type, trigger and standard."""
    return [Link(kind, at, triggered, met) for at, (kind, triggered, met) in enumerate(links)]


E, C = RuleType.EXCEPTION, RuleType.CONDITIONAL


@pytest.mark.parametrize(
    ("broken", "links", "expected"),
    [
        (True, [], {0}),
        (True, [(E, True, True)], set()),
        (True, [(E, True, False)], {1}),
        (True, [(E, False, True)], {0}),
        (False, [(C, True, False)], {0}),
        (False, [(C, True, True)], set()),
        # An exception to the exception lets the base rule stand again.
        (True, [(E, True, False), (E, True, True)], {0}),
        (True, [(E, True, False), (E, True, True), (E, True, False)], {1, 3}),
        # A conditional tightens the exception's own standard.
        (True, [(E, True, True), (C, True, False)], {1}),
        # A conditional upon a conditional passes through to the base rule.
        (False, [(C, True, True), (C, True, False)], {0}),
        (False, [(C, False, True), (C, True, False)], set()),
    ],
)
def test_plans_come_to_what_the_rules_say(broken, links, expected):
    assert net([Root(RuleType.DECISIVE, broken)], chain(*links)) == expected


@given(
    seed=SEEDS,
    roots=st.lists(st.booleans(), min_size=3, max_size=9),
    idle=st.integers(0, 8),
    exceptions=st.integers(1, 9),
    conditionals=st.integers(1, 9),
    depth=st.integers(1, 4),
)
def test_plans_keep_their_counts_and_depth(seed, roots, idle, exceptions, conditionals, depth):
    rng = random.Random(seed)
    base = [Root(RuleType.DECISIVE, broken) for broken in roots]
    base += [Root(RuleType.DISTRACTOR, False)] * idle
    if depth > exceptions + conditionals:
        with pytest.raises(DataError, match="less depth"):
            plan_links(base, exceptions, conditionals, depth, 5, rng)
        return
    links = plan_links(base, exceptions, conditionals, depth, 5, rng)
    assert Counter(link.type for link in links) == {E: exceptions, C: conditionals}
    heights = []
    for at, link in enumerate(links, len(base)):
        assert link.target < at
        below = heights[link.target - len(base)] if link.target >= len(base) else 0
        heights.append(below + 1)
    assert max(heights) == depth
    distractors = set(range(len(roots), len(base)))
    assert not net(base, links) & distractors


# L2 needs its framework.


def test_rules_of_l2_cannot_be_read_without_the_framework():
    for source in author(Knobs(conversations=30)):
        vocabulary = load_vocabulary(source.domain)
        plain = [name for item in vocabulary.items for name in (item.name, *item.far)]
        plain += [c for claim in vocabulary.claims for c in (claim.clause, *claim.far)]
        plain += [c for fact in vocabulary.facts for c in (fact.clause, *fact.far)]
        plain += [phrase(t).rest for c in vocabulary.cautions for t in (c.does, *c.far)]
        framework = source.policies[Level.L2].framework
        coined = coined_words(framework)
        assert len(coined) >= 5
        ordinary = [w for options in load_words("framework")["ordinary"].values() for w in options]
        terms = coined | {w for w in ordinary if re.search(rf"\b{w}", framework)}
        assert len(terms) > len(coined)
        for rule in source.policies[Level.L2].rules:
            assert not any(text in rule.text for text in plain)
            assert any(re.search(rf"\b{term[:-1]}", rule.text) for term in terms)


def coined_words(text):
    starts = "b|d|f|g|h|k|l|m|n|p|r|s|t|v|w|z|tr|br|dr|gr|kl|sn"
    ends = "oth|usk|irn|eft|auk|orl|ulm|isp|aft|eng|elk|orv|alv|inz|url|arg|olk|irv"
    middles = "b|d|g|k|l|m|n|r|v|z|lm|rn|nd|st"
    return set(
        re.findall(rf"\b((?:{starts})[aeiou](?:{middles})(?:{ends}))(?:e?[sd])?\b", text.lower())
    )


def test_a_framework_says_what_its_concepts_are():
    rng = random.Random(5)
    story = tell_story(load_vocabulary("privacy"), 13, rng)
    plain = plain_concepts(story, 0.0, rng)
    framework = draw_framework(story, plain, 0.0, rng)
    own = Pool(framework.concepts)
    for kind in ("full", "part", "decline", "announce", "request", "press"):
        whole = [c for c in own.by_kind[kind] if not c.part]
        assert len(whole) == 3
        # Every detail is in one class: together the classes have what the details have.
        hits = Counter(hit for c in whole for hit in c.hits)
        assert hits == Counter(hit for c in Pool(plain).by_kind[kind] for hit in c.hits)
        for c in whole:
            by_phase = [p for p in own.by_kind[kind] if p.part and p.topic == c.topic]
            hits = sorted(hit for phase in by_phase for hit in phase.hits)
            assert hits == (sorted(c.hits) if kind != "press" else [])
            assert c.phrase.verb in framework.text or inflect(c.phrase.verb)[0] in framework.text
    (standing,) = own.by_kind["standing"]
    said = {fact.topic: fact for fact in Pool(plain).by_kind["say"]}
    named = [fact for fact in said.values() if fact.phrase.rest in framework.text]
    firsts = sorted(fact.turns[0] for fact in named if fact.turns)
    either = "one of two things" in framework.text
    expected = firsts[:1] if either else firsts[1:2]
    assert list(standing.turns) == expected


@pytest.mark.parametrize("seed", range(8))
def test_surface_terms_are_read_off_the_text(seed):
    rng = random.Random(seed)
    story = tell_story(load_vocabulary("defamation"), 13, rng)
    framework = draw_framework(story, plain_concepts(story, 0.5, rng), 0.5, rng)
    own = Pool(framework.concepts)
    (candle,) = (c for c in own.by_kind["caution"] if not c.part)
    for surface in (c for c in own.by_kind["surface"] if not c.part):
        sign = r"\d" if "in digits" in framework.text else r"\?"
        shown = {t.number for t in story.turns if t.role == "chatbot" and re.search(sign, t.text)}
        assert set(surface.turns) == shown - set(candle.turns)
    for tone in own.by_kind["tone"]:
        quiet = {t.number for t in story.turns if t.role == "user" and "?" not in t.text}
        assert set(tone.turns) == quiet
    for debt in own.by_kind["debt"]:
        (due,) = re.findall(r"by the end of turn (\d+)", framework.text)
        for hit in debt.hits:
            (made,) = (
                e
                for e in story.events
                if (e.turn, e.act, e.text) == (hit.turn, "promise", hit.text)
            )
            paid = [e.turn for e in story.events if e.topic == made.topic and e.act in FULL]
            assert not any(hit.turn < turn <= hit.turn + int(due) - 2 for turn in paid)
