import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from safepyramid.metrics.rulesets import EPSILONS
from safepyramid.metrics.summary import (
    CaseScore,
    Record,
    RuleRecord,
    case_scores,
    rule_metrics,
    summarize,
)
from safepyramid.schema import Level, RuleType, State

TAUS = list(EPSILONS)
FAILED = [state for state in State if state is not State.ANSWERED]


def record(number=1, level="L0", domain="fraud", gold=(), predicted=(), state=State.ANSWERED):
    return Record(
        f"{domain[:4]}-{number:03}-{level.lower()}",
        Level(level),
        domain,
        frozenset(gold),
        state,
        frozenset(predicted) if state is State.ANSWERED else None,
    )


RECORDS = st.lists(
    st.builds(
        record,
        number=st.integers(1, 4),
        level=st.sampled_from(["L0", "L1", "L2"]),
        domain=st.sampled_from(["fraud", "privacy"]),
        gold=st.frozensets(st.integers(1, 12), max_size=9),
        predicted=st.frozensets(st.integers(1, 14), max_size=9),
        state=st.sampled_from([State.ANSWERED, State.ANSWERED, State.ANSWERED, *FAILED]),
    ),
    max_size=25,
)


def test_cell_by_hand():
    records = [
        record(1, gold=[1, 2], predicted=[1, 2]),  # exact; union 2
        record(2, gold=[1, 2, 3, 4, 5], predicted=[1, 2, 3, 4]),  # matches from 0.8; 1 of 5
        record(3, gold=[], predicted=[7]),  # never matches; 1 of 1
        record(4, gold=[1], state=State.REFUSED),
        record(5, gold=[], predicted=[]),  # exact; adds nothing to RDR
    ]
    assert summarize(records)["groups"]["L0"] == {
        "total": 5,
        "scored": 4,
        "excluded": 1,
        "rmr": (4 + 2 + 0 + 4) / (4 * 4),
        "rmr_at": {"1.0": 0.5, "0.9": 0.5, "0.8": 0.75, "0.7": 0.75, "0.6": 0.75, "0.5": 0.75},
        "rdr": 2 / 8,
        "excluded_rate": 0.2,
        "rmr_lower_bound": (4 + 2 + 0 + 4) / (4 * 5),
    }


def test_no_cases():
    nothing = {
        "total": 0,
        "scored": 0,
        "excluded": 0,
        "rmr": None,
        "rmr_at": dict.fromkeys(TAUS),
        "rdr": None,
        "excluded_rate": None,
        "rmr_lower_bound": None,
    }
    summary = summarize([])
    assert summary["groups"] == dict.fromkeys(("L0", "L1", "L2", "ALL"), nothing)
    assert summary["by_domain"] == {}
    # A level without cases beside one that has some.
    groups = summarize([record(level="L1")])["groups"]
    assert groups["L2"] == nothing
    assert groups["L1"] == groups["ALL"]


def test_nothing_scored_is_undefined_but_the_bound_is_zero():
    cell = summarize([record(state=State.TRUNCATED), record(state=State.BLOCKED)])["groups"]["ALL"]
    assert (cell["rmr"], cell["rdr"], cell["rmr_at"]["1.0"]) == (None, None, None)
    assert (cell["total"], cell["scored"], cell["excluded"]) == (2, 0, 2)
    assert (cell["excluded_rate"], cell["rmr_lower_bound"]) == (1.0, 0.0)


def test_a_true_zero_is_no_gap():
    cell = summarize([record(gold=[1], predicted=[2])])["groups"]["ALL"]
    assert (cell["rmr"], cell["rdr"]) == (0.0, 1.0)


def test_rdr_without_any_rule_is_undefined():
    cell = summarize([record(1), record(2)])["groups"]["ALL"]
    assert (cell["rmr"], cell["rdr"]) == (1.0, None)


def test_all_is_pooled_not_averaged():
    records = [record(n, "L0", gold=[1], predicted=[1]) for n in range(9)]
    records.append(record(1, "L2", gold=[1], predicted=[2]))
    groups = summarize(records)["groups"]
    assert (groups["L0"]["rmr"], groups["L2"]["rmr"], groups["ALL"]["rmr"]) == (1.0, 0.0, 0.9)


def test_every_state_is_counted():
    records = [record(n, "L1", gold=[1], state=state) for n, state in enumerate(State)]
    states = summarize(records)["states"]
    assert states["L1"] == dict.fromkeys((state.value for state in State), 1)
    assert states["L0"] == dict.fromkeys((state.value for state in State), 0)


def test_state_and_prediction_must_agree():
    with pytest.raises(ValueError, match="frau-001-l0"):
        Record("frau-001-l0", Level.L0, "fraud", frozenset(), State.REFUSED, frozenset())
    with pytest.raises(ValueError, match="answered"):
        Record("frau-001-l0", Level.L0, "fraud", frozenset(), State.ANSWERED, None)


@settings(deadline=None)
@given(RECORDS, st.randoms(use_true_random=False))
def test_properties(records, generator):
    summary = summarize(records)
    shuffled = list(records)
    generator.shuffle(shuffled)
    assert summarize(shuffled) == summary
    cells = [*summary["groups"].values()]
    cells += [cell for groups in summary["by_domain"].values() for cell in groups.values()]
    for cell in cells:
        assert cell["total"] == cell["scored"] + cell["excluded"]
        shares = [cell["rmr"], cell["rdr"], cell["excluded_rate"], cell["rmr_lower_bound"]]
        assert all(share is None or 0 <= share <= 1 for share in shares)
        if cell["scored"]:
            at = [cell["rmr_at"][tau] for tau in TAUS]
            assert at == sorted(at)
            assert cell["rmr"] == pytest.approx(sum(at[:4]) / 4)
            assert cell["rmr_lower_bound"] <= cell["rmr"]
            if at[0] == 1:
                assert not cell["rdr"]
    groups = summary["groups"]
    for key in ("total", "scored", "excluded"):
        assert groups["ALL"][key] == sum(groups[level][key] for level in Level)
        assert groups["ALL"][key] == sum(g["ALL"][key] for g in summary["by_domain"].values())
    for level, counts in summary["states"].items():
        assert set(counts) == set(State)
        assert sum(counts.values()) == groups[level]["total"]
        assert counts["answered"] == groups[level]["scored"]


def test_against_scikit_learn():
    generator = random.Random(1)
    records = [
        record(
            n,
            gold=generator.sample(range(1, 31), generator.randint(0, 9)),
            predicted=generator.sample(range(1, 31), generator.randint(0, 9)),
        )
        for n in range(300)
    ]
    # Exact matches and near misses among them.
    records += [record(n, gold=r.gold, predicted=r.gold) for n, r in enumerate(records[:60])]
    records += [
        record(n, gold=r.gold, predicted=set(sorted(r.gold)[1:]))
        for n, r in enumerate(records[60:160])
    ]
    binarize = MultiLabelBinarizer(classes=range(1, 31)).fit([])
    gold = binarize.transform([r.gold for r in records])
    said = binarize.transform([r.predicted for r in records])
    cell = summarize(records)["groups"]["ALL"]
    assert cell["rmr_at"]["1.0"] == pytest.approx(accuracy_score(gold, said))
    # Micro-averaged Jaccard distance from micro F1: J = F / (2 - F).
    precision, recall, f1, _ = precision_recall_fscore_support(gold, said, average="micro")
    assert cell["rdr"] == pytest.approx(1 - f1 / (2 - f1))
    wrong = np.maximum((said > gold).sum(1), (gold > said).sum(1))
    for tau in ("0.9", "0.8", "0.7", "0.6", "0.5"):
        # Decimal arithmetic by way of rounding: an independent reading of ⌊(1 − τ)·|G|⌋.
        budget = np.floor(np.round((1 - float(tau)) * gold.sum(1), 9))
        assert cell["rmr_at"][tau] == pytest.approx((wrong <= budget).mean())
    rows = [
        RuleRecord(Level.L0, RuleType.DECISIVE, bool(g), bool(s))
        for g, s in zip(gold.ravel(), said.ravel(), strict=True)
    ]
    scores = rule_metrics(rows)["L0"]["decisive"]
    assert (scores["precision"], scores["recall"]) == pytest.approx((precision, recall))
    assert scores["f1"] == pytest.approx(f1)
    assert scores["accuracy"] == pytest.approx((gold == said).mean())


def test_rule_metrics_by_hand():
    def rows(kind, *pairs):
        return [RuleRecord(Level.L1, kind, gold, said) for gold, said in pairs]

    records = [
        # tp, fn, refused on a violated rule, fp, tn, refused on a clean rule
        *rows(RuleType.DECISIVE, (True, True), (True, False), (True, None)),
        *rows(RuleType.DECISIVE, (False, True), (False, False), (False, None)),
        *rows(RuleType.DISTRACTOR, (False, False), (False, True)),
        *rows(RuleType.EXCEPTION, (True, False), (False, False)),
    ]
    scores = rule_metrics(records)
    assert scores["L1"]["decisive"] == {
        "n": 6,
        "n_refused": 2,
        "refused_rate": 2 / 6,
        "accuracy": 2 / 6,  # a refused verdict is never correct …
        "precision": 1 / 2,
        "recall": 1 / 3,
        "f1": 2 / 5,
        "tp": 1,
        "fp": 1,
        "fn": 2,
        "tn": 2,  # … yet flags nothing
    }
    # Nothing is violated: recall and F1 are undefined. One was flagged: precision is a true 0.
    distractor = scores["L1"]["distractor"]
    assert (distractor["recall"], distractor["f1"], distractor["precision"]) == (None, None, 0.0)
    # Nothing was flagged: precision is undefined, recall and F1 are true zeros.
    exception = scores["L1"]["exception"]
    assert (exception["recall"], exception["f1"], exception["precision"]) == (0.0, 0.0, None)
    assert "conditional" not in scores["L1"]
    assert scores["ALL"] == scores["L1"]
    assert scores["L1"]["all"]["n"] == 10
    assert scores["L0"] == {
        "all": dict.fromkeys(("n", "n_refused", "tp", "fp", "fn", "tn"), 0)
        | dict.fromkeys(("refused_rate", "accuracy", "precision", "recall", "f1"))
    }


@settings(deadline=None)
@given(RECORDS)
def test_case_scores_add_up_to_the_cells(records):
    records = list({r.case_id: r for r in records}.values())
    cell = summarize(records)["groups"]["ALL"]
    for metric, expected in [
        ("rmr", cell["rmr"]),
        ("rdr", cell["rdr"]),
        ("rmr_lower_bound", cell["rmr_lower_bound"]),
        *cell["rmr_at"].items(),
    ]:
        scores = case_scores(records, metric).values()
        below = sum(score.denominator for score in scores)
        found = sum(score.numerator for score in scores) / below if below else None
        assert found == (None if expected is None else pytest.approx(expected))


def test_case_scores_name_the_conversation():
    scores = case_scores([record(7, "L2", gold=[1, 2], predicted=[1, 3])], "rdr")
    assert scores == {"frau-007-l2": CaseScore("frau-007", 2, 3)}
    own = Record("my-case", Level.L0, "mine", frozenset(), State.ERROR, None)
    assert own.conversation_id == "my-case"
    with pytest.raises(ValueError, match=r"'rmr@1'.*rdr"):
        case_scores([], "rmr@1")
