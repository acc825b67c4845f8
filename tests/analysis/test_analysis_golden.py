"""What the published implementation computes, through the tables."""

import json

import pytest
from made_runs import GOLDEN

from safepyramid.analysis import tables
from safepyramid.analysis.collect import load_runs

EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
TAUS = {"10": "1.0", "9": "0.9", "8": "0.8", "7": "0.7", "6": "0.6", "5": "0.5"}
DRAWS = 100


@pytest.fixture(scope="module")
def per_policy():
    return load_runs([GOLDEN / "predictions.jsonl"], GOLDEN / "cases.json")


@pytest.fixture(scope="module")
def per_rule():
    return load_runs([GOLDEN / "judgments.jsonl"], GOLDEN / "cases.json")


def rounded(value):
    """Published shares are percents, rounded to 0.01."""
    return pytest.approx(100 * value, abs=0.005 + 1e-9)


def assert_row(row, published):
    assert (row["total"], row["scored"]) == (published["total"], published["n_eval"])
    assert published["refusal"] == rounded(row["excluded_rate"])
    assert published["rdr"] == rounded(row["rdr"])
    assert published["rmr_exact"] == rounded(row["rmr@1.0"])
    # Each RMR@τ was rounded before the mean, and the mean once more.
    assert published["rmr_avg"] == pytest.approx(100 * row["rmr"], abs=0.01 + 1e-9)


@pytest.mark.parametrize("protocol", ["per_policy", "per_rule"])
def test_results(request, protocol):
    frame = tables.results(request.getfixturevalue(protocol), published=False, draws=DRAWS)
    rows = frame[frame["section"] == "runs"].to_dict("records")
    assert [row["level"] for row in rows] == ["L0", "L1", "L2", "ALL"]
    for row in rows:
        assert_row(row, EXPECTED[protocol][row["level"]])


def test_thresholds(per_policy):
    frame = tables.thresholds(per_policy, published=False, draws=DRAWS)
    for row in frame[frame["section"] == "runs"].to_dict("records"):
        for key, tau in TAUS.items():
            published = EXPECTED["per_policy"][row["level"]][f"rmr_tau_{key}"]
            assert published == rounded(row[f"rmr@{tau}"])


def test_domains(per_policy):
    rows = tables.domains(per_policy, draws=DRAWS).to_dict("records")
    assert len(rows) == 4 * len(EXPECTED["per_policy_by_domain"])
    for row in rows:
        assert_row(row, EXPECTED["per_policy_by_domain"][row["domain"]][row["level"]])


def test_error_attribution(per_policy):
    rows = tables.error_types(per_policy).to_dict("records")
    found = {
        level: {
            kind: {row["type"]: row[kind] for row in rows if row["level"] == level}
            for kind in ("fp", "fn")
        }
        for level in ("L0", "L1", "L2")
    }
    assert found == EXPECTED["error_attribution"]
    pooled = {row["type"]: row["errors"] for row in rows if row["level"] == "ALL"}
    levels = [row for row in rows if row["level"] != "ALL"]
    for kind, errors in pooled.items():
        assert errors == sum(row["errors"] for row in levels if row["type"] == kind)


def test_failure_modes(per_policy):
    frame = tables.failure_modes(per_policy)
    found = {}
    for row in frame.dropna(subset=["cases"]).to_dict("records"):
        found.setdefault(row["level"], {})[row["mode"]] = row["cases"]
    assert found == EXPECTED["failure_modes"]


def test_rule_types(per_rule):
    rows = {(r["level"], r["type"]): r for r in tables.rule_types(per_rule).to_dict("records")}
    compared = 0
    for level, published in EXPECTED["per_rule_binary"].items():
        for kind, expected in {"all": published, **published["by_rule_type"]}.items():
            row = rows[level, kind]
            assert row["n"] == expected["n_judgments"]
            for key in ("tp", "fp", "fn", "tn", "n_refused"):
                assert row[key] == expected[key]
            assert row["accuracy"] == pytest.approx(expected["accuracy"])
            assert row["accuracy_none"] == pytest.approx(
                expected["n_not_violated_gt"] / expected["n_judgments"]
            )
            compared += 1
    assert compared == 11


def test_states_sum_to_the_cases(per_policy):
    for row in tables.states(per_policy).to_dict("records"):
        names = ("answered", "refused", "blocked", "truncated", "unparsed", "error", "missing")
        assert sum(row[name] for name in names) == row["total"]
        assert row["answered"] == EXPECTED["per_policy"][row["level"]]["n_eval"]
