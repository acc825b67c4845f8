"""Every wrong rule has one cause, and the causes add up to the errors."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import GOLD, GOLDEN, case, run, together

from safepyramid.analysis import tables
from safepyramid.analysis.causes import CAUSES, cause_of, causes, modifiers_of, wrong_rule_rows
from safepyramid.analysis.collect import load_runs
from safepyramid.dataset.load import load_benchmark
from safepyramid.metrics.failures import wrong_rules
from safepyramid.schema import RuleType


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (99, "flagged-unknown"),
        (2, "flagged-waived"),
        (7, "flagged-exception"),
        (8, "flagged-conditional"),
        (5, "flagged-distractor"),
        (4, "flagged-kept"),
        # missed
        (3, "missed-tightened"),
        (6, "missed-exception"),
        (1, "missed-waivable"),
    ],
)
def test_by_hand(rule, expected):
    (wrong,) = wrong_rules(case(), GOLD ^ {rule})
    assert cause_of(wrong, case()) == expected


def test_the_two_that_need_another_truth():
    # 3 kept though conditional 8 names it; 4 violated, which nothing names.
    other = case(gold={4, 6})
    causes_of = {w.rule: cause_of(w, other) for w in wrong_rules(other, {3, 6})}
    assert causes_of == {3: "flagged-tightened", 4: "missed-plain"}


def test_modifiers():
    assert [entry.rule for entry in modifiers_of(3, case())] == [8]
    assert modifiers_of(4, case()) == []


@given(
    st.frozensets(st.integers(1, 10)),
    st.frozensets(st.integers(1, 8)),
    st.sampled_from(["L0", "L1"]),
)
def test_every_wrong_rule_has_exactly_one_cause(predicted, gold, level):
    each = case(level=level, gold=gold)
    for wrong in wrong_rules(each, predicted):
        cause = cause_of(wrong, each)
        assert cause in CAUSES
        assert cause.startswith("flagged" if wrong.kind == "fp" else "missed")
        own = each.rule_types.get(wrong.rule)
        if own is RuleType.DISTRACTOR and wrong.kind == "fp":
            assert cause == "flagged-distractor"


def test_causes_add_up_to_the_errors():
    runs = load_runs([GOLDEN / "predictions.jsonl"], GOLDEN / "cases.json")
    by_cause = causes(runs).groupby("level")["errors"].sum()
    by_type = tables.error_types(runs).groupby("level")["errors"].sum()
    assert by_cause.to_dict() == by_type.to_dict()
    assert len(list(wrong_rule_rows(runs))) == by_cause["ALL"]


def test_a_row_says_all_there_is_to_say():
    runs = together(run([case()], {"frau-001-l1": {1, 3, 6, 2}}))
    (row,) = wrong_rule_rows(runs)
    assert (row["rule"], row["kind"], row["cause"]) == (2, "fp", "flagged-waived")
    assert (row["attributed"], row["type"], row["text"]) == ("exception", "decisive", "Text of 2.")
    assert row["waived"] is True
    assert [m["rule"] for m in row["modifiers"]] == [6]
    assert (row["gold"], row["predicted"]) == ([1, 3, 6], [1, 2, 3, 6])
    assert row["reply"] is None


def test_an_unknown_number_has_no_text():
    (row,) = wrong_rule_rows(together(run([case()], {"frau-001-l1": {*GOLD, 99}})))
    assert (row["type"], row["text"], row["paired_with"]) == (None, None, None)


def test_evidence_where_the_data_has_it(tmp_path):
    from made_runs import result_file

    _, cases = load_benchmark("sample", limit=3)
    file = result_file(tmp_path / "run.jsonl", cases, {cases[0].id: set()})
    rows = list(wrong_rule_rows(load_runs([file], "sample", evidence=True)))
    assert rows
    assert all(row["evidence"] for row in rows)
    json.dumps(rows)
