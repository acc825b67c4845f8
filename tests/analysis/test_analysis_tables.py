"""Blocks, order, ranks and intervals of the result tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import GOLDEN, case, pyramid, run, together

from safepyramid.analysis import tables
from safepyramid.analysis.causes import causes
from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.estimates import LEVELS, best_first, estimates, ordered, ranks, to_frame
from safepyramid.metrics.stats import FEWEST, bootstrap, bootstrap_each
from safepyramid.metrics.summary import CaseScore, case_scores
from safepyramid.schema import State

CASES = pyramid(8)
IDS = [each.id for each in CASES]
WRONG = {1, 2, 4, 5, 7, 8}
"""Wrong at every τ, at every level."""


def results(*runs, **options):
    frame = tables.results(together(*runs), draws=200, **{"published": False, **options})
    return frame[frame["section"] == "runs"] if not options else frame


def pooled(frame):
    return frame[frame["level"] == "ALL"].set_index("run")


def test_different_cases_stand_in_different_blocks():
    only = [each for each in CASES if each.level == "L0"]
    frame = results(run(CASES, model="m/all"), run(only, model="m/easy"))
    assert frame["block"].nunique() == 2
    assert list(pooled(frame)["rank"]) == [1, 1]
    assert list(pooled(frame)["total"]) == [24, 8]


def test_protocols_stand_in_different_blocks():
    frame = results(run(CASES), run(CASES, protocol="per_rule"))
    assert frame["block"].nunique() == 2


def test_same_ids_with_another_truth_stand_in_different_blocks():
    changed = [case(1, gold={1}), *CASES[3:]]
    frame = results(run([case(1), *CASES[3:]], model="a"), run(changed, model="b"))
    assert frame["block"].nunique() == 2


def test_answering_only_the_easy_cases_does_not_lead():
    hard = {i: State.REFUSED for i in IDS if not i.endswith("l0")}
    careful = {i: WRONG for i in IDS[:9]}
    frame = pooled(results(run(CASES, hard, model="shy"), run(CASES, careful, model="bold")))
    assert list(frame.index) == ["bold", "shy"]
    assert frame.loc["shy", "rmr"] == 1.0
    assert frame.loc["shy", "rmr_lower_bound"] == pytest.approx(8 / 24)
    assert list(frame["rank"]) == [1, 2]


def test_ties_share_a_rank_and_keep_the_given_order():
    for names in (("a", "b", "c"), ("c", "b", "a")):
        frame = pooled(results(*(run(CASES, model=name) for name in names)))
        assert list(frame.index) == list(names)
        assert list(frame["rank"]) == [1, 1, 1]
        assert list(frame["rank_worst"]) == [1, 1, 1]


def test_a_run_without_a_scored_case_is_last_and_undefined():
    nothing = dict.fromkeys(IDS, State.ERROR)
    frame = results(
        run(CASES, nothing, model="none"), run(CASES, dict.fromkeys(IDS, WRONG), model="bad")
    )
    row = pooled(frame).loc["none"]
    assert row[["rmr", "rmr_low", "rmr_high", "rdr", "rmr@1.0"]].isna().all()
    assert row["rmr_lower_bound"] == 0.0
    assert (row["scored"], row["excluded_rate"]) == (0, 1.0)


def test_intervals_are_those_of_the_bootstrap():
    said = {i: WRONG for i in IDS[::2]}
    only = run(CASES, said)
    row = pooled(results(only)).iloc[0]
    for metric, name in (("rmr", "rmr"), ("rmr@1.0", "1.0"), ("rdr", "rdr")):
        found = bootstrap(case_scores(only.records, name).values(), seed=0, draws=200)
        assert (row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) == pytest.approx(
            (found.value, found.low, found.high)
        )


def test_tables_agree_on_the_interval_of_a_metric_that_both_have():
    # A conversation without any answer is resampled all the same.
    said = {i: WRONG for i in IDS[6::2]} | dict.fromkeys(IDS[:3], State.REFUSED)
    runs = together(run(CASES, said))
    one = tables.results(runs, published=False, draws=200)
    other = tables.thresholds(runs, published=False, draws=200)
    for bound in ("", "_low", "_high"):
        assert list(one[f"rmr@1.0{bound}"]) == pytest.approx(
            list(other[f"rmr@1.0{bound}"]), nan_ok=True
        )


def test_one_conversation_has_no_interval():
    row = pooled(results(run(pyramid(1)))).iloc[0]
    assert row["rmr"] == 1.0
    assert np.isnan(row["rmr_low"])


def test_baselines_and_published_rows_stand_beside_without_a_rank():
    frame = results(run(CASES), published=True)
    baselines = frame[frame["section"] == "baselines"]
    assert set(baselines["run"]) == {"none", "all", "random"}
    assert set(baselines["block"]) == set(frame[frame["section"] == "runs"]["block"])
    published = frame[frame["section"] == "published"]
    assert len(published) == 12 * 4
    assert not set(published["block"]) & set(baselines["block"])
    for part in (baselines, published):
        assert part["rank"].isna().all()
        assert part["rmr_low"].isna().all()


def test_harness_runs_bring_the_papers_harness_table():
    with_one = results(run(CASES, harness="Codex"), published=True)
    assert "Codex (v0.130.0)" in set(with_one["harness"].dropna())
    assert "harness" not in results(run(CASES), published=True)


def test_published_thresholds_hold_what_was_printed():
    frame = tables.thresholds(together(run(CASES)), draws=100)
    published = frame[frame["section"] == "published"]
    assert published["rmr@1.0"].notna().all()
    assert published["rmr@0.9"].isna().all()


def test_failure_modes_that_a_level_cannot_have_are_undefined():
    frame = tables.failure_modes(together(run(CASES))).set_index(["level", "mode"])
    assert frame.loc[("L0", "FM-C1")].isna()["cases"]
    assert frame.loc[("L1", "FM-C1"), "cases"] == 0


def test_error_shares_are_undefined_without_errors():
    frame = tables.error_types(together(run(CASES)))
    assert (frame["errors"] == 0).all()
    assert frame["share"].isna().all()


def test_rule_types_per_policy_by_hand():
    # One L1 case, predicted {1, 2}: true 1, 3, 6.
    frame = tables.rule_types(together(run([case()], {"frau-001-l1": {1, 2}})))
    row = frame.set_index(["level", "type"]).loc[("L1", "all")]
    assert (row["n"], row["tp"], row["fp"], row["fn"], row["tn"]) == (8, 1, 1, 2, 4)
    assert row["accuracy"] == 5 / 8
    assert row["accuracy_none"] == 5 / 8
    distractor = frame.set_index(["level", "type"]).loc[("L1", "distractor")]
    assert np.isnan(distractor["recall"])


def test_a_guard_that_judges_without_calls_has_a_verdict_on_every_target():
    # Rule 8 is a conditional: flagged, it is an error of the set, and no verdict.
    only = run([case()], {"frau-001-l1": {1, 2, 8}}, protocol="per_rule", model=None, guard="all")
    row = tables.rule_types(together(only)).set_index(["level", "type"]).loc[("L1", "all")]
    assert (row["n"], row["tp"], row["fp"], row["fn"], row["tn"]) == (7, 1, 1, 2, 3)
    assert set(only.said(case())) == {1, 2, 3, 4, 5, 6, 7, 8}
    assert set(run([case()], {"frau-001-l1": {1}}, protocol="per_rule").said(case())) == set(
        range(1, 8)
    )


@pytest.mark.parametrize(
    "make",
    [
        *(tables.states, tables.rule_types, tables.error_types, tables.failure_modes),
        *(tables.domains, causes),
    ],
)
def test_levels_that_a_run_does_not_have_are_no_rows(make):
    only = [each for each in CASES if each.level == "L1"]
    assert set(make(together(run(only)))["level"]) <= {"L1", "ALL"}


def test_shares_of_errors_have_intervals():
    frame = tables.error_types(together(run(CASES, {i: WRONG for i in IDS[::2]})), draws=200)
    rows = frame[(frame["level"] == "ALL") & frame["share"].gt(0)]
    assert len(rows)
    assert (rows["share_low"] <= rows["share"]).all()
    assert (rows["share"] <= rows["share_high"]).all()
    # An L0 policy has no exceptions to misread.
    levels = frame.set_index(["level", "type"])["share"]
    assert np.isnan(levels["L0", "exception"])
    assert levels["L1", "exception"] >= 0
    few = tables.error_types(together(run(CASES[:9], {i: WRONG for i in IDS[:9]})), draws=200)
    assert few["share"].notna().any()
    assert few["share_low"].isna().all()


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=8), st.booleans())
def test_ranks(values, higher):
    found = ranks(values, higher_is_better=higher)
    for value, rank in zip(values, found, strict=True):
        if value is None:
            assert rank is None
        else:
            better = [v for v in values if v is not None and (v > value if higher else v < value)]
            assert rank == 1 + len(better)


@pytest.mark.parametrize(
    ("values", "higher", "order"),
    [
        ([None, 0.2, 0.9], True, [2, 1, 0]),
        ([None, 0.2, 0.9], False, [1, 2, 0]),
        ([0.5, None, 0.5, None, 0.7], True, [4, 0, 2, 1, 3]),
        ([None, 0.0], True, [1, 0]),
        ([], True, []),
    ],
)
def test_missing_values_come_last_and_ties_keep_their_order(values, higher, order):
    assert best_first(values, higher_is_better=higher) == order


@given(st.permutations(range(5)))
def test_order_is_by_lower_bound_then_as_given(order):
    # Runs 0 to 4 answer 0, 0, 4, 4 and 8 of the cases wrong.
    made = [
        run(CASES, dict.fromkeys(IDS[:wrong], WRONG), model=f"m{k}")
        for k, wrong in enumerate((0, 0, 4, 4, 8))
    ]
    given_runs = [made[k] for k in order]
    found = [each.origin.model for each in ordered(given_runs)]
    stable = sorted(
        given_runs,
        key=lambda each: {"m0": 0, "m1": 0, "m2": 1, "m3": 1, "m4": 2}[each.origin.model],
    )
    assert found == [each.origin.model for each in stable]


def test_gaps_stay_gaps():
    frame = to_frame([{"n": 1, "share": None, "name": "a"}, {"n": None, "share": 0.5}])
    assert str(frame["n"].dtype) == "Int64"
    assert frame["n"].isna().tolist() == [False, True]
    assert frame["share"].isna().tolist() == [True, False]
    assert to_frame([]).empty


# --- the bootstrap of a whole table


def simulated(rng, conversations, answered):
    """Three cases a conversation that share a success rate; some have no answer."""
    rates = np.repeat(rng.beta(0.5, 0.5, conversations), 3)
    ids = [f"c{i // 3}" for i in range(3 * conversations)]
    scores = [CaseScore(i, float(rng.random() < p), 1.0) for i, p in zip(ids, rates, strict=True)]
    kept = [s for s in scores if rng.random() < answered]
    return kept, [CaseScore(i, 0.0, 1.0) for i in ids]


@pytest.mark.parametrize("share", [1.0, 0.6], ids=["all answered", "two fifths without an answer"])
def test_intervals_of_a_table_cover_the_truth(share):
    rng = np.random.default_rng(31)
    covered = 0
    for _ in range(600):
        kept, everything = simulated(rng, 80, share)
        found = bootstrap_each({"rmr": kept, "all": everything}, seed=rng, draws=500)["rmr"]
        covered += found.low <= 0.5 <= found.high
    assert 0.93 <= covered / 600 <= 0.97


def test_a_column_alone_gets_what_bootstrap_gives_it():
    rng = np.random.default_rng(32)
    kept, _ = simulated(rng, 40, 0.8)
    assert bootstrap_each({"x": kept}, seed=3, draws=300)["x"] == bootstrap(kept, seed=3, draws=300)


def test_columns_do_not_disturb_each_other():
    rng = np.random.default_rng(33)
    (a, everything), (b, _) = simulated(rng, 40, 0.8), simulated(rng, 40, 0.5)
    both = bootstrap_each({"a": a, "b": b, "all": everything}, seed=3, draws=300)
    alone = bootstrap_each({"a": a, "all": everything}, seed=3, draws=300)
    assert both["a"] == alone["a"]


def test_a_column_with_few_conversations_has_a_wide_interval():
    everything = [CaseScore(f"c{i}", 0.0, 1.0) for i in range(40)]
    few = [CaseScore(f"c{i}", float(i % 2), 1.0) for i in range(FEWEST)]
    made = bootstrap_each({"few": few, "all": everything}, seed=0, draws=2000)["few"]
    # In draws of 40 conversations the six come in every mixture, from all wrong to all right.
    assert made.low <= 0.1
    assert made.high >= 0.9
    assert made.value == 0.5


def test_empty_and_single_columns_have_no_estimate():
    one = [CaseScore("c1", 1.0, 1.0)]
    found = bootstrap_each(
        {
            "none": [],
            "one": one,
            "many": [CaseScore(f"c{i}", float(i % 2), 1.0) for i in range(FEWEST)],
        },
        seed=0,
    )
    assert found["none"] is None
    assert found["one"] is None
    assert found["many"].value == 0.5
    assert bootstrap_each({}, seed=0) == {}


def test_runs_of_a_group_are_resampled_together():
    runs = load_runs([GOLDEN / "predictions.jsonl"], GOLDEN / "cases.json")
    members = list(runs)
    found = estimates(members, ["rmr", "rdr"], LEVELS, 0, 200)
    again = estimates([*members, *members], ["rmr", "rdr"], LEVELS, 0, 200)
    assert found == again
