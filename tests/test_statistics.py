from dataclasses import replace

import pytest

from safepyramid.metrics.baselines import VIOLATED_RATE
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType
from safepyramid.statistics import render_statistics, statistics
from safepyramid.tokens import estimate_tokens

TYPES = {"d": "decisive", "t": "distractor", "e": "exception", "c": "conditional"}


def case(number, level, rules, violated, turns=1, words=""):
    """`rules` has a letter per rule, its type; texts are the same at L0 and L1."""
    text = "rewritten {}" if level == 2 else "rule {}"
    entries = [
        RubricEntry(n, text.format(n), RuleType(TYPES[letter]), n in violated)
        for n, letter in enumerate(rules, 1)
    ]
    return Case(
        id=f"frau-{number:03}-l{level}",
        domain="fraud" if number < 2 else "privacy",
        level=Level(f"L{level}"),
        ground_truth_violations=frozenset(violated),
        conversation="\n".join(
            f"Turn {n} - {role}: Hi" for n in range(1, turns + 1) for role in ("User", "Chatbot")
        ),
        framework="",
        policy=words,
        rubric=tuple(entries),
        failure_mode_metadata=FailureModeMetadata(),
    )


CASES = [
    case(1, 0, "ddtt", {1, 2}, turns=3),
    case(1, 1, "ddttecc", {1, 5}, turns=3),
    case(1, 2, "ddtec", {1}, turns=3),
    case(2, 0, "dt", {1}),
]


def test_counts_by_hand():
    stats = statistics(CASES)
    assert stats["conversations"] == 2
    assert stats["domains"] == {"fraud": 3, "privacy": 1}
    levels = stats["levels"]
    assert [row["cases"] for row in levels.values()] == [2, 1, 1, 4]
    assert levels["L0"]["types"] == {
        "decisive": 3,
        "distractor": 3,
        "exception": 0,
        "conditional": 0,
    }
    assert levels["ALL"]["types"] == {
        "decisive": 7,
        "distractor": 6,
        "exception": 2,
        "conditional": 3,
    }
    # L1 adds three rules to the four of L0; all of L2's are rewritten.
    assert [row["rules_full"] for row in levels.values()] == [6, 7, 5, 18]
    assert [row["rules_distinct"] for row in levels.values()] == [6, 3, 5, 14]
    assert levels["L0"]["rules_per_policy"] == {"mean": 3.0, "max": 4}
    assert levels["ALL"]["violated_per_policy"] == {"mean": 1.5, "max": 2}
    assert levels["L0"]["turns_mean"] == 2.0
    assert levels["L0"]["positive_share"] == 3 / 6
    assert levels["ALL"]["positive_share"] == 6 / 18


def test_tokens_are_those_of_policy_and_conversation():
    one = case(1, 0, "d", set(), words="one two three")
    tokens = statistics([one])["levels"]["L0"]["input_tokens"]
    assert tokens["max"] == 3 + estimate_tokens(one.conversation)
    assert tokens["mean"] == tokens["max"]


def test_baselines_by_hand():
    baselines = statistics(CASES)["baselines"]
    # Calling nothing violated: two of two, two of two, one of one and one of one are missed.
    assert baselines["none"]["ALL"] == {
        "rmr": 0.0,
        "rmr_at_1": 0.0,
        "rdr": 1.0,
        "rule_accuracy": 12 / 18,
    }
    # Calling all violated at L0: 2 + 1 rules too many, of 4 + 2 predicted.
    assert baselines["all"]["L0"] == {
        "rmr": 0.0,
        "rmr_at_1": 0.0,
        "rdr": 3 / 6,
        "rule_accuracy": 3 / 6,
    }


def test_random_baseline_is_its_expectation():
    many = [case(n, 0, "dddddtttttttttt", {1, 2, 3}) for n in range(1, 4)]
    cell = statistics(many)["baselines"]["random"]["L0"]
    p = VIOLATED_RATE[Level.L0]
    # Each of 15 rules is called violated with chance p; right are p of 3 and 1 - p of 12.
    assert cell["rule_accuracy"] == pytest.approx((p * 3 + (1 - p) * 12) / 15)
    # Exact match: all three called, none of the twelve others.
    assert cell["rmr_at_1"] == pytest.approx(p**3 * (1 - p) ** 12)
    assert cell["rdr"] == pytest.approx((12 * p + 3 * (1 - p)) / (3 + 12 * p))


def test_no_cases_are_undefined_not_zero():
    stats = statistics([])
    assert stats["levels"]["L1"] == {
        "cases": 0,
        "types": dict.fromkeys(TYPES.values(), 0),
        "rules_full": 0,
        "rules_distinct": 0,
        "rules_per_policy": {"mean": None, "max": None},
        "violated_per_policy": {"mean": None, "max": None},
        "input_tokens": {"mean": None, "max": None},
        "turns_mean": None,
        "positive_share": None,
    }
    assert stats["baselines"]["random"]["ALL"] == dict.fromkeys(
        ("rmr", "rmr_at_1", "rdr", "rule_accuracy")
    )
    assert "none" in render_statistics(stats)


def test_an_unreadable_conversation_has_no_turns():
    broken = replace(CASES[0], conversation="Hi")
    assert statistics([broken, CASES[3]])["levels"]["L0"]["turns_mean"] == 1.0
    assert statistics([broken])["levels"]["L0"]["turns_mean"] is None


def test_what_acts_on_a_terminal_is_shown_as_a_mark():
    odd = replace(CASES[3], domain="a\x1b[2J\nb\u202e")
    first = render_statistics(statistics([odd])).split("\n")[0]
    assert first == "1 conversations; cases by domain: a\ufffd[2J b\ufffd 1"


def test_rendered_table():
    text = render_statistics(statistics(CASES))
    lines = text.split("\n")
    assert lines[0] == "2 conversations; cases by domain: fraud 3, privacy 1"
    assert lines[2].split() == ["L0", "L1", "L2", "ALL"]
    rows = {line[:28].strip(): line[28:].split() for line in lines[3:]}
    assert rows["rules, distinct"] == ["6", "3", "5", "14"]
    assert rows["violated, mean"] == ["1.5", "2.0", "1.0", "1.5"]
    assert rows["violated of all rules, %"] == ["50.0", "28.6", "20.0", "33.3"]
    assert rows["none: rules right, %"] == ["50.0", "71.4", "80.0", "66.7"]
    assert len({len(line) for line in lines[2:] if line}) == 1
