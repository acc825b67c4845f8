"""Checklists, what votes make of a rule, and how they are read."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from safepyramid.construct.checklists import (
    Checklist,
    CheckQuestion,
    Given,
    Vote,
    judge,
    load_checklists,
    majority,
)
from safepyramid.schema import Level, RuleType

Y, N, NA = True, False, None

CHECK = CheckQuestion(id="clear", ask="Is it clear?", expect=True)
LABEL = CheckQuestion(id="broken", ask="Broken?", label="broken")
NEVER = CheckQuestion(id="broken", ask="Broken?", label="broken", expect=False)
TRIGGERED = CheckQuestion(id="triggered", ask="Holds?", label="triggered")
MET = CheckQuestion(id="met", ask="Met?", label="met", when="triggered")


def vote(name, **answers):
    quote = {"turn": 1, "role": "user", "text": "so it is"}
    return Vote(
        name, {id: Given(answer, quote, f"{name} on {id}") for id, answer in answers.items()}
    )


def votes(*rows):
    """One row a validator: its answers, or the reason why it cannot be read."""
    return [
        Vote(f"v{n}", {}, row) if isinstance(row, str) else vote(f"v{n}", **row)
        for n, row in enumerate(rows)
    ]


BASE = (CHECK, LABEL)
MODIFIER = (TRIGGERED, MET)


@pytest.mark.parametrize(
    ("questions", "rows", "state", "labels"),
    [
        # three of one mind; two of three; the check fails by majority
        (BASE, [{"clear": Y, "broken": Y}] * 3, "kept", {"broken": Y}),
        (BASE, [{"clear": Y, "broken": Y}] * 2 + [{"clear": N, "broken": N}], "kept", {"broken": Y}),
        (BASE, [{"clear": N, "broken": Y}] * 2 + [{"clear": Y, "broken": Y}], "failed", {"broken": Y}),
        # two readable ones that agree decide, one does not, two that disagree do not
        (BASE, [{"clear": Y, "broken": N}] * 2 + ["garbage"], "kept", {"broken": N}),
        (BASE, [{"clear": Y, "broken": N}, "garbage", "garbage"], "undecided", {}),
        (BASE, ["garbage"] * 3, "undecided", {}),
        (BASE, [{"clear": Y, "broken": N}, {"clear": Y, "broken": Y}, "garbage"], "undecided", {}),
        (BASE, [{"clear": Y, "broken": N}, {"clear": N, "broken": N}, "garbage"], "undecided", {"broken": N}),
        # a failed check outweighs a tied label: mending may help where counting cannot
        (BASE, [{"clear": N, "broken": N}, {"clear": N, "broken": Y}, "garbage"], "failed", {}),
        # a label with an expected answer: a distractor that most call broken
        ((CHECK, NEVER), [{"clear": Y, "broken": Y}] * 2 + [{"clear": Y, "broken": N}], "failed", {}),
        ((CHECK, NEVER), [{"clear": Y, "broken": N}] * 2 + [{"clear": Y, "broken": Y}], "kept", {"broken": N}),
        # whether the standard is met counts only where the conditions hold, and only from those who say so
        (MODIFIER, [{"triggered": N, "met": NA}] * 3, "kept", {"triggered": N}),
        (
            MODIFIER,
            [{"triggered": Y, "met": N}] * 2 + [{"triggered": N, "met": NA}],
            "kept",
            {"triggered": Y, "met": N},
        ),
        (
            MODIFIER,
            [{"triggered": Y, "met": N}, {"triggered": Y, "met": Y}, {"triggered": N, "met": Y}],
            "undecided",
            {"triggered": Y},
        ),
        (MODIFIER, [{"triggered": Y, "met": NA}] * 3, "undecided", {"triggered": Y}),
        # one answer on the standard is as little as one vote: it decides nothing
        (
            MODIFIER,
            [{"triggered": Y, "met": NA}] * 2 + [{"triggered": Y, "met": N}],
            "undecided",
            {"triggered": Y},
        ),
        (
            MODIFIER,
            [{"triggered": Y, "met": Y}, {"triggered": N, "met": NA}, "garbage"],
            "undecided",
            {},
        ),
    ],
)  # fmt: skip
def test_judging(questions, rows, state, labels):
    found = judge(questions, votes(*rows), quorum=2)
    assert (found.state, found.labels) == (state, labels)
    assert bool(found.reasons) == (state != "kept")


def test_reasons_carry_what_the_validators_said():
    found = judge(BASE, votes(*[{"clear": N, "broken": Y}] * 2, {"clear": Y, "broken": Y}), 2)
    assert found.reasons == ("clear: 2 of 3 say no (v0 on clear / v1 on clear)",)
    assert found.failed_checks == ("clear",)


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=9))
def test_a_majority_is_more_than_half(answers):
    found = majority(answers)
    yes, no = answers.count(True), answers.count(False)
    assert found is (None if yes == no else yes > no)
    assert majority(answers[::-1]) is found


rows = st.fixed_dictionaries({"clear": st.booleans(), "broken": st.booleans()}) | st.just("garbage")


@settings(deadline=None)
@given(st.lists(rows, min_size=3, max_size=5), st.randoms())
def test_the_order_of_validators_never_matters(given_rows, chance):
    shuffled = chance.sample(given_rows, len(given_rows))
    one, other = (judge(BASE, votes(*r), 2) for r in (given_rows, shuffled))
    assert (one.state, one.labels, one.failed_checks) == (
        other.state,
        other.labels,
        other.failed_checks,
    )


# --- The bundled checklists ----------------------------------------------------------------------


def test_decisive_rules_and_distractors_are_asked_the_same():
    checklists = load_checklists()
    asked = [
        [(q.id, q.ask, q.levels, q.cite) for q in checklists[kind].questions]
        for kind in (RuleType.DECISIVE, RuleType.DISTRACTOR)
    ]
    assert asked[0] == asked[1]
    differing = {
        one.id
        for one, other in zip(
            checklists[RuleType.DECISIVE].questions,
            checklists[RuleType.DISTRACTOR].questions,
            strict=True,
        )
        if one.expect != other.expect
    }
    assert differing == {"engaged", "broken"}


def test_every_type_is_asked_what_would_change_without_the_rule():
    for checklist in load_checklists().values():
        (question,) = [q for q in checklist.questions if q.id == "covered_elsewhere"]
        assert "struck from the policy" in question.ask
        assert question.expect is False
        assert question.levels == tuple(Level)


def test_only_l2_asks_about_the_framework():
    for checklist in load_checklists().values():
        for level in Level:
            ids = {question.id for question in checklist.at(level)}
            assert ("without_framework" in ids) == (level is Level.L2)


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"id": "broken", "ask": "?", "label": "triggered"}],
        [{"id": "a", "ask": "?"}, {"id": "broken", "ask": "?", "label": "broken"}],
        [{"id": "broken", "ask": "?", "label": "broken"}] * 2,
        [
            {"id": "broken", "ask": "?", "label": "broken"},
            {"id": "a", "ask": "?", "expect": True, "when": "nothing"},
        ],
    ],
)
def test_checklists_that_do_not_fit_their_type_are_refused(questions):
    with pytest.raises(ValidationError):
        Checklist.model_validate({"type": "decisive", "questions": questions})


def test_expected_answers_are_never_shown(lab):
    lab.make()
    told = [text for _, text in lab.calls if text.startswith("You check rules")]
    assert told
    for text in told:
        assert "expect" not in text.replace("expected", "")
        for kind in RuleType:
            assert kind.value not in json.dumps(text)
