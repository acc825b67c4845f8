"""Texts of strangers as HTML."""

import html
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import sample

from safepyramid.conversation import parse_conversation
from safepyramid.report.text import Quote, find_quotes, link_rules, mark_quotes, printable, tree
from safepyramid.schema import RubricEntry, RuleType, Turn

TURNS = (
    Turn(1, "user", "Please send the form to my sister today."),
    Turn(1, "chatbot", "I have sent the form to your sister."),
    Turn(2, "user", "Thanks. And send the form to my brother too."),
)


def entry(rule: int, evidence: Any) -> RubricEntry:
    return RubricEntry(rule, "text", RuleType.DECISIVE, True, evidence=evidence)


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb", "a\nb"),
        ("\x00\x1b\x7f", "␀␛␡"),
        ("\x85\ud800", "��"),
        ("\u202e\u2028é", "\u202e\u2028é"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        ("Rule 16 is waived.", {16}, 'Rule <a href="#r16">16</a> is waived.'),
        (
            "Rules 3, 5 and 9 hold",
            {3, 9},
            'Rules <a href="#r3">3</a>, 5 and <a href="#r9">9</a> hold',
        ),
        ("Rule 7", set(), "Rule 7"),
        ("within 7 days of Rule 70", {7}, "within 7 days of Rule 70"),
        ("<Rule 1>", {1}, '&lt;Rule <a href="#r1">1</a>&gt;'),
        ("no rule at all & none", {1}, "no rule at all &amp; none"),
    ],
)
def test_rules_are_linked(text: str, rules: set[int], expected: str) -> None:
    assert link_rules(text, rules) == expected


@given(st.text(), st.sets(st.integers(1, 40)))
def test_linking_adds_links_and_changes_no_text(text: str, rules: set[int]) -> None:
    assert plain(link_rules(text, rules)) == printable(text)


@given(
    st.text(alphabet=st.characters(exclude_characters="\r")),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9))),
)
def test_marks_may_overlap_and_change_no_text(
    text: str, places: list[tuple[int, int, int]]
) -> None:
    quotes = [
        Quote(rule, 0, min(a, b, len(text)), min(max(a, b), len(text))) for a, b, rule in places
    ]
    assert plain(mark_quotes(text, [q for q in quotes if q.end > q.start])) == printable(text)


def test_a_mark_names_its_rules() -> None:
    quotes = [Quote(4, 0, 0, 6), Quote(9, 0, 3, 8)]
    assert mark_quotes("abcdefgh<", quotes) == (
        '<mark title="evidence on rule 4">abc</mark>'
        '<mark title="evidence on rule 4, 9">def</mark>'
        '<mark title="evidence on rule 9">gh</mark>&lt;'
    )


def test_a_quote_is_found_in_the_turn_that_is_named() -> None:
    evidence = [{"quotes": [{"turn": 2, "role": "user", "text": "send the form to my"}]}]
    assert find_quotes([entry(3, evidence)], TURNS) == [Quote(3, 2, 12, 31)]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ("the user says “send the form to my brother too” at last", [Quote(3, 2, 12, 43)]),
        ({"why": 'It answers "I have sent the form" at once'}, [Quote(3, 1, 0, 20)]),
        ({"turn": 1, "role": "chatbot", "text": "not said at all"}, [Quote(3, 1, 0, 0)]),
        ("Turn 2 decides it", [Quote(3, 2, 0, 0)]),
        ({"turn": 7, "text": "send the form to my"}, []),
        ({"turn": True, "text": "short"}, []),
        ({"verdict": True, "n": 3, "none": None}, []),
        (None, []),
    ],
)
def test_evidence_of_any_form(evidence: Any, expected: list[Quote]) -> None:
    assert find_quotes([entry(3, evidence)], TURNS) == expected


def test_every_quote_of_the_sample_is_found() -> None:
    for case in sample(evidence=True):
        turns = parse_conversation(case.conversation)
        found = find_quotes(case.rubric, turns)
        texts = {(q.rule, turns[q.turn].text[q.start : q.end]) for q in found}
        for each in case.rubric:
            for validator in each.evidence:
                for quote in validator["quotes"]:
                    assert (each.rule, quote["text"]) in texts or len(quote["text"]) < 8


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<b>", "&lt;b&gt;"),
        (True, "yes"),
        (None, "unknown"),
        ([1, 2], "1, 2"),
        ([], "none"),
        ({"a": {"b": ["x"]}}, "<ul><li><b>a</b> <ul><li><b>b</b> x</li></ul></li></ul>"),
        ([{"a": 1}], "<ul><li><ul><li><b>a</b> 1</li></ul></li></ul>"),
    ],
)
def test_nested_values_as_lists(value: Any, expected: str) -> None:
    assert tree(value) == expected
