"""Run against run, runs that repeat each other, and runs that differ in one thing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import GOLD, case, pyramid, run, together

from safepyramid.analysis.ablations import ablation, series
from safepyramid.analysis.compare import CHANGES, case_changes, compare, repeats
from safepyramid.errors import DataError
from safepyramid.metrics.stats import holm, paired_difference
from safepyramid.metrics.summary import case_scores
from safepyramid.schema import State

CASES = pyramid(6)
IDS = [each.id for each in CASES]
WRONG = {1, 2, 4, 5, 7, 8}


@pytest.mark.parametrize(
    ("first", "second", "change", "fixed", "broken"),
    [
        ({1, 2}, GOLD, "fixed", [2, 3, 6], []),
        (GOLD, {1, 3}, "broken", [], [6]),
        ({1, 2}, {1, 2}, "same", [], []),
        (GOLD, GOLD, "same", [], []),
        ({1, 2}, {1, 3, 4}, "moved", [2, 3], [4]),
        (State.REFUSED, GOLD, "fixed", [], []),
        (GOLD, State.ERROR, "broken", [], []),
        (State.REFUSED, {1}, "moved", [], []),
        (State.REFUSED, State.BLOCKED, "same", [], []),
    ],
)
def test_one_case(first, second, change, fixed, broken):
    only = case()
    runs = together(
        *(
            run([only], {only.id: said}, model=m)
            for m, said in zip("ab", (first, second), strict=True)
        )
    )
    found = case_changes(only, runs[0], runs[1])
    assert (found["change"], found["rules_fixed"], found["rules_broken"]) == (change, fixed, broken)


ANSWERS = st.one_of(
    st.sampled_from([State.REFUSED, State.UNPARSED]), st.frozensets(st.integers(1, 8), max_size=8)
)


@settings(deadline=None, max_examples=40)
@given(st.lists(ANSWERS, min_size=18, max_size=18), st.lists(ANSWERS, min_size=18, max_size=18))
def test_every_case_changes_in_one_way_and_back_again(first, second):
    runs = together(
        run(CASES, dict(zip(IDS, first, strict=True)), model="a"),
        run(CASES, dict(zip(IDS, second, strict=True)), model="b"),
    )
    there, back = compare(*runs, draws=100), compare(*reversed(runs), draws=100)
    assert len(there.cases) == len(CASES)
    for comparison in (there, back):
        for by in ("level", "domain"):
            counts = comparison.counts(by)
            assert (counts[list(CHANGES)].sum(axis=1) == counts["cases"]).all()
    swap = {"fixed": "broken", "broken": "fixed"}
    assert list(back.cases["change"]) == [swap.get(c, c) for c in there.cases["change"]]
    for row in there.rules.to_dict("records"):
        assert row["rules"] == sum(row[n] for n in ("right", "wrong", "fixed", "broken"))


def test_differences_are_those_of_the_paired_test():
    runs = together(
        run(CASES, {i: WRONG for i in IDS[:9]}, model="a"),
        run(CASES, {i: WRONG for i in IDS[:3]}, model="b"),
    )
    frame = compare(*runs, draws=300).differences.set_index(["metric", "level"])
    expected = paired_difference(
        *(case_scores(r.records, "rmr") for r in reversed(runs)), seed=0, draws=300
    )
    row = frame.loc[("rmr", "ALL")]
    assert row["difference"] == pytest.approx(expected.value) == pytest.approx(6 / 18)
    assert (row["difference_low"], row["difference_high"], row["p"]) == pytest.approx(
        (expected.low, expected.high, expected.p_value)
    )
    assert row["second"] - row["first"] == pytest.approx(row["difference"])
    assert list(frame["p_holm"]) == pytest.approx(holm(list(frame["p"])))


def test_only_answered_cases_are_compared_but_for_the_lower_bound():
    runs = together(
        run(CASES, {IDS[0]: State.REFUSED}, model="a"), run(CASES, {IDS[1]: WRONG}, model="b")
    )
    frame = compare(*runs, draws=100).differences.set_index(["metric", "level"])
    assert (frame.loc[("rmr", "ALL"), "cases"], frame.loc[("rmr", "ALL"), "dropped"]) == (17, 1)
    assert frame.loc[("rmr_lower_bound", "ALL"), "cases"] == 18
    assert frame.loc[("rmr", "ALL"), "first"] == 1.0


def test_runs_share_some_cases_only():
    runs = together(run(CASES[:12], model="a"), run(CASES[6:], model="b"))
    found = compare(*runs, draws=100)
    assert len(found.cases) == 6
    assert len(found.notes) == 2
    with pytest.raises(DataError, match="no case in common"):
        compare(*together(run(CASES[:3], model="a"), run(CASES[3:], model="b")))


def test_cases_that_changed_their_text_are_not_compared():
    other = [replace(CASES[0], policy="Another policy."), *CASES[1:]]
    with pytest.raises(DataError, match="frau-001-l0 is not the same"):
        compare(*together(run(CASES, model="a"), run(other, model="b")))


def test_how_many_cases_a_difference_needs():
    # One case of 18 apart: far too few to tell.
    runs = together(run(CASES, {IDS[0]: WRONG}, model="a"), run(CASES, model="b"))
    frame = compare(*runs, draws=300).differences.set_index(["metric", "level"])
    assert frame.loc[("rmr", "ALL"), "needed"] > 18
    # Half the difference takes four times as many.
    asked = compare(*runs, draws=300, points=5).differences.set_index(["metric", "level"])
    found = compare(*runs, draws=300, points=2.5).differences.set_index(["metric", "level"])
    needed = [frame.loc[("rmr", "ALL"), "needed"] for frame in (asked, found)]
    assert needed[1] == pytest.approx(4 * needed[0], abs=4)
    same = compare(*together(run(CASES, model="a"), run(CASES, model="b")), draws=100).differences
    assert same["needed"].isna().all()
    assert (same["difference"] == 0).all()


# --- repetitions


def test_repetitions():
    runs = together(
        run(CASES),
        run(CASES, {IDS[0]: WRONG, IDS[1]: State.REFUSED}),
        run(CASES, model="org/other"),
    )
    frame = repeats(runs)
    row = frame[frame["level"] == "ALL"].iloc[0]
    assert (row["run"], row["runs"]) == ("org/model #1", 2)
    assert (row["rmr_min"], row["rmr_max"]) == (pytest.approx(16 / 17), 1.0)
    assert row["same_answer"] == pytest.approx(16 / 17)
    assert row["always_answered"] == pytest.approx(17 / 18)
    # 5 rules of the L0 case differ in 1, 3 → missed 3, flagged 2, 4, 5: 4 of 113 rules compared.
    rules = sum(len(each.rubric) for each in CASES) - len(CASES[1].rubric)
    assert row["agreement"] == pytest.approx(1 - 4 / rules)
    assert row["alpha"] < 1


@pytest.mark.parametrize(
    "change",
    [
        {"effort": "low"},
        {"prompts_hash": "x"},
        {"guard": "g"},
        {"settings": "{}"},
        {"harness": "h"},
    ],
)
def test_what_differs_is_no_repetition(change):
    assert repeats(together(run(CASES), run(CASES, **change))).empty


# --- ablations


def efforts(*values):
    return [
        run(CASES, {i: WRONG for i in IDS[: 2 * k]}, effort=value) for k, value in enumerate(values)
    ]


def test_efforts_come_from_the_least_to_the_most():
    runs = together(*efforts("xhigh", None, "low", "turbo", "medium"))
    (members,) = series(runs, "effort")
    assert [m.origin.effort for m in members] == ["low", "medium", "xhigh", "turbo", None]


def test_only_what_differs_in_one_thing_is_a_series():
    a, b = efforts("low", "high")
    assert series(together(a, run(CASES, effort="high", prompts_hash="x")), "effort") == []
    assert len(series(together(a, b, run(CASES, effort="low", guard="g")), "effort")) == 1
    # A repetition does not make a second column.
    assert len(series(together(a, a, b), "effort")[0]) == 2
    assert ablation(together(a), "effort", published=False).empty


def test_changes_are_against_the_first_of_the_series():
    high, low = efforts("high", "low")
    frame = ablation(together(high, low), "effort", published=False, draws=300)
    rows = frame[frame["level"] == "ALL"].set_index("effort")
    assert rows.loc["low"].isna()["rmr_change"]
    expected = paired_difference(
        case_scores(high.records, "rmr"), case_scores(low.records, "rmr"), seed=0, draws=300
    )
    assert rows.loc["high", "rmr_change"] == pytest.approx(expected.value)
    assert rows.loc["high", "rmr_p"] == pytest.approx(expected.p_value)
    raw = [frame[f"{m}_p"].dropna() for m in ("rmr", "rmr@1.0", "rdr")]
    assert (frame["rmr_p_holm"].dropna() >= raw[0] - 1e-12).all()


def test_plain_calls_come_before_a_harness():
    runs = together(run(CASES, harness="Codex"), run(CASES))
    (members,) = series(runs, "harness")
    assert [m.origin.harness for m in members] == [None, "Codex"]


def test_what_the_paper_says_stands_beside():
    runs = together(*efforts("low", "high"))
    frame = ablation(runs, "effort", draws=100)
    published = frame[frame["section"] == "published"].set_index("level")
    assert published["rmr_change"].to_dict() == {"L1": 0.055, "L2": 0.145}
    assert published["rdr_change"].to_dict() == {"L1": -0.039, "L2": -0.157}
    harness = ablation(together(run(CASES)), "harness")
    rows = harness[(harness["level"] == "ALL") & (harness["run"] == "Claude-Opus-4.7")]
    # 55.2 → 60.4 average RMR
    assert list(rows["rmr_change"].dropna()) == [0.052]
