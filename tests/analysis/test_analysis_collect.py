"""Result files as runs, their names, and the tidy tables they make."""

import pandas as pd
import pytest
from made_runs import (
    GOLD,
    GOLDEN,
    answered,
    benchmark,
    case,
    predictions,
    pyramid,
    result_file,
    run,
    together,
)

from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.runs import Origin, name_runs
from safepyramid.dataset.load import data_hash
from safepyramid.errors import DataError
from safepyramid.results.read import write_judgments
from safepyramid.schema import Judgment, Prediction, State, Verdict

CASES = pyramid(3)


@pytest.fixture
def data(tmp_path):
    return benchmark(tmp_path / "data.json", CASES)


def test_a_result_file_needs_its_data(tmp_path):
    file = result_file(tmp_path / "run.jsonl", CASES)
    with pytest.raises(DataError, match="holds no cases; give --dataset"):
        load_runs([file])
    with pytest.raises(DataError, match="no runs"):
        load_runs([])


def test_cases_without_a_line_are_missing(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES[:4])
    (found,) = load_runs([file], data)
    states = [found.predictions[case.id].state for case in found.cases]
    assert states == [State.ANSWERED] * 4 + [State.MISSING] * 5
    assert any("5 of 9 cases have no result" in note for note in load_runs([file], data).notes)


def test_a_run_on_part_of_the_data_stands_on_that_part(tmp_path, data):
    part = [each for each in CASES if each.level == "L0"]
    file = result_file(tmp_path / "run.jsonl", part, header={"data_hash": data_hash(part)})
    (found,) = load_runs([file], data)
    assert [each.id for each in found.cases] == [each.id for each in part]


def test_strangers_are_refused(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", [case(77)])
    with pytest.raises(DataError, match="the dataset does not have"):
        load_runs([file], data)


def test_filters(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES)
    assert [c.level for c in load_runs([file], data, level="l1")[0].cases] == ["L1"] * 3
    assert len(load_runs([file], data, domain="fraud", level=["L0", "L2"])[0].cases) == 6
    with pytest.raises(DataError, match="no case has privacy; it has L0, L1, L2, fraud"):
        load_runs([file], data, domain="privacy")


def test_filtered_runs_share_a_block(tmp_path, data):
    # A run of all levels and one of L0 only can be compared on L0.
    part = [each for each in CASES if each.level == "L0"]
    whole = result_file(tmp_path / "whole.jsonl", CASES)
    only = result_file(tmp_path / "only.jsonl", part, header={"data_hash": data_hash(part)})
    assert len(load_runs([whole, only], data).blocks()) == 2
    assert len(load_runs([whole, only], data, level="L0").blocks()) == 1


def test_headers_tell_what_was_run(tmp_path, data):
    header = {
        "guard": "chat",
        "harness": "Codex",
        "config": {"reasoning_effort": "high", "temperature": 0.5, "max_connections": 50},
        "options": {"votes": 3},
        "created": "2026-08-01T00:00:00+00:00",
    }
    file = result_file(tmp_path / "run.jsonl", CASES, header=header)
    origin = load_runs([file], data)[0].origin
    assert (origin.guard, origin.harness, origin.effort) == ("chat", "Codex", "high")
    # How calls are made does not tell runs apart.
    assert origin.settings == '{"temperature": 0.5, "votes": 3}'


# --- names


def origin(**given):
    return Origin(
        **{"path": "p", "protocol": "per_policy", "model": "a/x", "guard": "chat", **given}
    )


@pytest.mark.parametrize(
    ("origins", "hashes", "names"),
    [
        ([origin()], "d", ["a/x"]),
        ([origin(model=None, guard="lexical")], "d", ["lexical"]),
        ([origin(guard="dynaguard")], "d", ["a/x · dynaguard"]),
        ([origin(effort="low", harness="Codex")], "d", ["a/x · Codex · low"]),
        ([origin(), origin(model="b/x")], "dd", ["a/x", "b/x"]),
        (
            [origin(), origin(protocol="per_rule")],
            "dd",
            ["a/x · per-policy", "a/x · per-rule"],
        ),
        ([origin(), origin()], "de", ["a/x · data d", "a/x · data e"]),
        ([origin(), origin()], "dd", ["a/x #1", "a/x #2"]),
        ([origin(model=None, guard=None)], "d", ["p"]),
        ([origin(model="a\n\x1b[31mb\u2028c")], "d", ["a [31mb c"]),
    ],
)
def test_names(origins, hashes, names):
    assert name_runs(origins, hashes) == names


def test_organisations_with_one_model_name_stay_apart(tmp_path, data):
    files = [
        result_file(tmp_path / f"{org}.jsonl", CASES, model=f"{org}/guard") for org in ("a", "b")
    ]
    assert [each.name for each in load_runs(files, data)] == ["a/guard", "b/guard"]


# --- tables


def test_case_table_by_hand():
    runs = together(run([case()], {"frau-001-l1": {1, 2, 77}}))
    row = runs.cases.iloc[0]
    assert (row["case"], row["conversation"], row["level"]) == ("frau-001-l1", "frau-001", "L1")
    assert (row["gold"], row["predicted"]) == (GOLD, {1, 2, 77})
    # Flagged without reason: 2 and 77; missed: 3 and 6.
    assert (row["fp"], row["fn"], row["unknown"], row["exact"]) == (2, 2, 1, False)


def test_case_table_has_no_zero_for_what_was_not_answered():
    row = together(run([case()], {"frau-001-l1": State.REFUSED})).cases.iloc[0]
    assert row["state"] == "refused"
    assert row["predicted"] is None
    for name in ("fp", "fn", "unknown", "rmr", "exact"):
        assert pd.isna(row[name])


def test_rule_table_by_hand():
    frame = together(run([case()], {"frau-001-l1": {1, 2, 77}})).rules.set_index("rule")
    assert list(frame.index) == [1, 2, 3, 4, 5, 6, 7, 8, 77]
    assert list(frame["gold"]) == [True, False, True, False, False, True, False, False, False]
    wrong = frame.dropna(subset=["wrong"])
    assert wrong["wrong"].to_dict() == {2: "fp", 3: "fn", 6: "fn", 77: "fp"}
    assert wrong["attributed"].to_dict() == {
        **{2: "exception", 3: "conditional", 6: "exception"},
        77: "unknown",
    }


def test_rule_table_per_rule(tmp_path):
    # Rule 1 is judged right, 2 is refused, 3 is missing; conditional 8 is never a target.
    verdicts = {
        1: Verdict(State.ANSWERED, True),
        2: Verdict(State.REFUSED),
        4: Verdict(State.ANSWERED, False),
        8: Verdict(State.ANSWERED, True),
    }
    said = Prediction(
        "frau-001-l1",
        State.ANSWERED,
        frozenset({1}),
        judgments=tuple(Judgment(rule, verdict) for rule, verdict in verdicts.items()),
    )
    write_judgments(tmp_path / "run.jsonl", [said], model="m")
    runs = load_runs([tmp_path / "run.jsonl"], benchmark(tmp_path / "data.json", [case()]))
    frame = runs.rules.set_index("rule")
    assert list(frame.index) == [1, 2, 3, 4, 5, 6, 7]
    assert frame["predicted"].isna().to_dict() == {
        **dict.fromkeys((1, 4), False),
        **dict.fromkeys((2, 3, 5, 6, 7), True),
    }
    assert frame["wrong"].dropna().to_dict() == {3: "fn", 6: "fn"}


def test_rule_table_agrees_with_the_case_table():
    runs = load_runs([GOLDEN / "predictions.jsonl"], GOLDEN / "cases.json")
    counted = runs.rules.groupby(["case", "wrong"], observed=True).size().unstack(fill_value=0)
    cases = runs.cases.dropna(subset=["fp"]).set_index("case")
    for name in ("fp", "fn"):
        expected = cases[name][cases[name] > 0].astype(int)
        found = counted[name][counted[name] > 0]
        assert found.to_dict() == expected.to_dict()


def test_made_predictions_are_what_they_say():
    made = predictions(CASES, {"frau-001-l1": State.BLOCKED})
    assert made["frau-001-l1"].violated is None
    assert made["frau-002-l1"] == answered("frau-002-l1", GOLD)
