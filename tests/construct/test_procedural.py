"""Whole procedural pyramids: sound, of the right shape, and as hard as they are set to be."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from statistics import fmean

import pytest

from safepyramid.construct.assemble import assemble, source_problems
from safepyramid.construct.procedural import Knobs, author, demo, write_conversation
from safepyramid.dataset.check import check_cases
from safepyramid.dataset.load import load_benchmark
from safepyramid.errors import DataError
from safepyramid.guards.baselines import lexical, overlap, words
from safepyramid.metrics.summary import Record, summarize
from safepyramid.policy.parse import RawJudgment, lint_policy, parse_policy, resolve
from safepyramid.schema import DOMAINS, Level, RuleType, State
from safepyramid.statistics import statistics

E, C = RuleType.EXCEPTION, RuleType.CONDITIONAL


@lru_cache(maxsize=32)
def pyramid(count=60, **knobs):
    """Sources and their cases."""
    sources = tuple(author(Knobs(conversations=count, **knobs)))
    return sources, tuple(assemble(source, level) for source in sources for level in Level)


def scores(cases, predict):
    records = [
        Record(
            case.id,
            case.level,
            case.domain,
            case.ground_truth_violations,
            State.ANSWERED,
            frozenset(predict(case)),
        )
        for case in cases
    ]
    return summarize(records)["groups"]


# Whole pyramids.


def test_sources_and_cases_are_sound():
    sources, cases = pyramid(100)
    assert [problem for source in sources for problem in source_problems(source)] == []
    assert check_cases(cases) == []
    assert {source.id for source in sources} >= {"acad-0001", "frau-0010", "spec-0010"}
    assert Counter(source.domain for source in sources) == dict.fromkeys(DOMAINS, 10)


def test_policies_are_easy_to_judge_by_the_linter():
    for case in pyramid(20)[1]:
        findings = lint_policy(parse_policy(case.policy, case.framework))
        assert [finding for finding in findings if "nearly the same" not in finding] == []


def test_the_shape_is_that_of_the_published_benchmark():
    """Means of table 2 of the paper; L2 is somewhat shorter here."""
    levels = statistics(pyramid(100)[1])["levels"]
    for level, rules, violated, tokens in (
        ("L0", 16.1, 5.5, 1600),
        ("L1", 28.7, 6.3, 2800),
        ("L2", 33.0, 6.8, 4300),
    ):
        row = levels[level]
        assert row["rules_per_policy"]["mean"] == pytest.approx(rules, abs=0.5)
        assert row["violated_per_policy"]["mean"] == pytest.approx(violated, abs=0.4)
        assert row["input_tokens"]["mean"] == pytest.approx(tokens, rel=0.15)
        assert row["turns_mean"] == pytest.approx(12.8, abs=0.5)
    distractors = levels["L0"]["types"]["distractor"] / levels["L0"]["rules_full"]
    assert distractors == pytest.approx(0.52, abs=0.02)


def test_guessing_and_counting_words_do_not_solve_it():
    cases = pyramid(100)[1]
    guard = lexical()
    for predict in (guard.predict, lambda case: (), lambda case: case.rule_types):
        for level, cell in scores(cases, predict).items():
            assert cell["rmr"] < 0.15, level


def test_distractors_are_as_close_to_the_conversation_as_decisive_rules():
    near = {kind: [] for kind in RuleType}
    for case in pyramid(100)[1]:
        if case.level is Level.L0:
            spoken = words(case.conversation)
            for entry in case.rubric:
                near[entry.type].append(overlap(words(entry.text), spoken))
    gap = fmean(near[RuleType.DECISIVE]) - fmean(near[RuleType.DISTRACTOR])
    assert abs(gap) < 0.05


def read_logic(case, depth=99):
    """Judge every rule alone as the evidence does, and resolve modifiers up to a depth."""
    entries = {entry.rule: entry for entry in case.rubric}

    @cache
    def height(rule):
        entry = entries[rule]
        return 1 + max(map(height, entry.paired_with)) if entry.type.is_modifier else 0

    return resolve(
        RawJudgment(
            entry.rule,
            entry.type,
            entry.paired_with,
            broken=entry.evidence[0].get("broken", False),
            triggered=entry.evidence[0].get("triggered", False),
            met=entry.evidence[0].get("met", True),
        )
        for entry in case.rubric
        if height(entry.rule) <= depth
    ).violated


def test_who_reads_all_of_the_logic_scores_100():
    cells = scores(pyramid(60)[1], read_logic)
    assert {cell["rmr"] for cell in cells.values()} == {1.0}
    assert {cell["rdr"] for cell in cells.values()} == {0.0}


@pytest.mark.slow
@pytest.mark.parametrize("reads", [0, 1, 2])
def test_a_shallow_reader_falls_behind_as_depth_grows(reads):
    """Solves what is no deeper than it reads, and less the deeper it gets."""
    curve = []
    for depth in (1, 2, 3, 4):
        cells = scores(pyramid(150, depth=depth)[1], lambda case: read_logic(case, reads))
        assert cells["L0"]["rmr"] == 1.0
        curve.append((cells["L1"]["rmr"] + cells["L2"]["rmr"]) / 2)
    assert curve[:reads] == [1.0] * reads
    falling = curve[max(0, reads - 1) :]
    if reads:
        assert all(before - after > 0.03 for before, after in pairwise(falling))
    assert curve[-1] < 0.5


@pytest.mark.slow
def test_with_room_for_deep_rules_the_fall_goes_on():
    """Policies of the published size hold few chains of five; larger ones do not run out."""
    curve = []
    for depth in (3, 4, 5, 6):
        cases = pyramid(150, depth=depth, rules=(16.1, 36.0, 42.0))[1]
        cells = scores(cases, lambda case: read_logic(case, 3))
        curve.append((cells["L1"]["rmr"] + cells["L2"]["rmr"]) / 2)
    assert curve[0] == 1.0
    assert all(before - after > 0.03 for before, after in pairwise(curve))


def modifiers(sources, level):
    """Each modifier with the rule that it acts on."""
    for source in sources:
        rules = {rule.key: rule for rule in source.rules(level)}
        for rule in rules.values():
            yield from ((rule, rules[key]) for key in rule.modifies)


@pytest.mark.parametrize("level", [Level.L1, Level.L2])
def test_all_kinds_of_modifiers_occur(level):
    kinds, targets, flips = Counter(), Counter(), Counter()
    for rule, target in modifiers(pyramid(60)[0], level):
        kinds[rule.type, rule.triggered, rule.met] += 1
        targets[rule.type, target.type] += 1
        if rule.type is C and rule.met is False and not target.type.is_modifier:
            flips[target.broken] += 1
    for kind in (E, C):
        assert min(kinds[kind, *s] for s in ((True, True), (True, False), (False, None))) > 20
        # On decisive rules, on distractors, and on other modifiers.
        assert min(targets[kind, target] for target in RuleType) > 0
    assert min(flips[True], flips[False]) > 5


@pytest.mark.parametrize("level", [Level.L1, Level.L2])
def test_in_each_policy_an_exception_and_a_conditional_meet_on_one_rule(level):
    for source in pyramid(60)[0]:
        active = [(r, t) for r, t in modifiers([source], level) if r.triggered]
        waived = {target.key for rule, target in active if rule.type is E}
        tightened = {target.key for rule, target in active if rule.type is C and not rule.met}
        assert waived & tightened, source.id


def test_triggers_fail_by_one_condition_only():
    for source in pyramid(20)[0]:
        for level in (Level.L1, Level.L2):
            for rule in source.policies[level].rules:
                if rule.type.is_modifier:
                    failing = re.findall(r"\([a-e]\) fails", rule.reason)
                    assert len(failing) == (not rule.triggered), rule.reason


# Knobs.


def test_a_conversation_does_not_depend_on_how_many_there_are():
    few, many = pyramid(10)[0], pyramid(30)[0]
    assert {source.id: source for source in few}.items() <= {s.id: s for s in many}.items()
    assert write_conversation("fraud", 1, Knobs()) == next(s for s in few if s.id == "frau-0001")


def test_another_seed_is_another_pyramid():
    assert pyramid(10)[0][0].turns != pyramid(10, seed=1)[0][0].turns


def test_knobs_do_what_they_say():
    base = statistics(pyramid(40)[1])["levels"]
    few = pyramid(40, domains=("privacy", "fraud"))[0]
    assert [s.id for s in few[:2]] == ["frau-0001", "frau-0002"]
    assert Counter(s.domain for s in few) == {"fraud": 20, "privacy": 20}
    assert {len(s.turns) for s in pyramid(10, turns=(8, 8))[0]} == {16}
    small = statistics(pyramid(40, rules=(8.0, 14.0, 18.0))[1])["levels"]
    assert [small[level]["rules_per_policy"]["mean"] for level in ("L0", "L1", "L2")] == [
        pytest.approx(mean, abs=0.6) for mean in (8, 14, 18)
    ]
    plain = statistics(pyramid(20, distractors=0.0)[1])["levels"]["L2"]["types"]
    assert plain["distractor"] == 0
    only = statistics(pyramid(20, exceptions=1.0)[1])["levels"]["L2"]["types"]
    assert only["conditional"] == 0
    assert only["exception"] > 0
    none = statistics(pyramid(20, violated=(0.0, 0.0, 0.0))[1])["levels"]
    assert none["L0"]["violated_per_policy"]["mean"] == 0
    assert none["L2"]["violated_per_policy"]["mean"] < base["L2"]["violated_per_policy"]["mean"] / 2


def test_shift_takes_the_rules_away_from_the_conversation():
    def closeness(shift):
        cases = [case for case in pyramid(40, shift=shift)[1] if case.level is Level.L0]
        return fmean(
            overlap(words(entry.text), words(case.conversation))
            for case in cases
            for entry in case.rubric
        )

    assert closeness(0.0) > closeness(0.5) + 0.05 > closeness(1.0) + 0.1


@pytest.mark.parametrize("depth", [1, 3, 7, 14])
def test_any_depth_can_be_had(depth):
    for source in pyramid(10, depth=depth)[0]:
        for level in (Level.L1, Level.L2):
            rules = {rule.key: rule for rule in source.rules(level)}

            def height(key, rules=rules):
                return 1 + max(map(height, rules[key].modifies), default=-1)

            assert max(height(key) for key in rules) == depth


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"conversations": 0}, "conversations is 0, must be at least 1"),
        ({"depth": 0}, "depth is 0"),
        ({"shift": 1.5}, "shift is 1.5, must be from 0 to 1"),
        ({"distractors": 1.0}, "distractors is 1.0"),
        ({"exceptions": -0.1}, "exceptions is -0.1"),
        ({"violated": (0.5, 0.5, 2)}, "violated is"),
        ({"turns": (3, 9)}, "turns is"),
        ({"turns": (9, 8)}, "turns is"),
        ({"rules": (16, 12, 20)}, "rules is"),
        ({"rules": (16, 20)}, "rules is (16, 20), must be 3 numbers"),
        ({"violated": ()}, "violated is (), must be 3 numbers"),
        ({"turns": (8, 9, 10)}, "turns is (8, 9, 10), must be 2 numbers"),
        ({"domains": ()}, "domains is"),
        ({"domains": ("fraud", "weather")}, "no vocabulary for domain 'weather'; allowed: acad"),
    ],
)
def test_knobs_out_of_range_are_named(knobs, message):
    with pytest.raises(DataError, match=re.escape(message)):
        Knobs(**knobs)


def test_what_a_conversation_cannot_give_is_said():
    with pytest.raises(DataError, match="ask for fewer rules"):
        next(author(Knobs(conversations=1, rules=(90, 100, 100))))


# The release folder.


def test_demo_writes_a_release_folder(tmp_path):
    metadata = demo(10, 0, tmp_path / "out", depth=3)
    names = {"benchmark.json", "benchmark_with_evidence.json", "benchmark.parquet", "SHA256SUMS"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    for line in (tmp_path / "out/SHA256SUMS").read_text(encoding="utf-8").split("\n")[:-1]:
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
    loaded, cases = load_benchmark(tmp_path / "out/benchmark.json")
    assert loaded["knobs"]["depth"] == 3
    assert loaded["cases"] == metadata["cases"] == 30
    assert check_cases(cases) == []
    assert all(entry.evidence is None for case in cases for entry in case.rubric)
    _, told = load_benchmark(tmp_path / "out/benchmark_with_evidence.json", evidence=True)
    assert scores(told, read_logic)["ALL"]["rmr"] == 1.0
    _, flat = load_benchmark(tmp_path / "out/benchmark.parquet")
    assert [case.ground_truth_violations for case in flat] == [
        case.ground_truth_violations for case in cases
    ]


def test_demo_writes_the_same_bytes_whatever_the_order_of_hashes(tmp_path):
    code = "import sys; from safepyramid.construct.procedural import demo; demo(10, 7, sys.argv[1])"
    sums = set()
    for seed in ("1", "2"):
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(folder)], check=True, env=environment)
        sums.add((folder / "SHA256SUMS").read_text(encoding="utf-8"))
    assert len(sums) == 1


def test_demo_replaces_its_own_files_and_leaves_a_folder_with_others_alone(tmp_path):
    demo(1, 0, tmp_path / "out")
    first = (tmp_path / "out/SHA256SUMS").read_text(encoding="utf-8")
    demo(1, 1, tmp_path / "out")
    assert (tmp_path / "out/SHA256SUMS").read_text(encoding="utf-8") != first
    (tmp_path / "out/errata.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(DataError, match=r"out holds 'errata.json', which is not of a procedural"):
        demo(1, 0, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    with pytest.raises(DataError, match=r"cannot write to .*: Not a directory"):
        demo(1, 0, tmp_path / "out/errata.json")


def test_every_knob_is_an_option_of_the_command(run, tmp_path):
    options = "--rules 10 16 20 --violated 0.3 0.2 0.2 --distractors 0.4 --exceptions 0"
    options += " --depth 3 --turns 8 9 --shift 0 --domain fraud --domain privacy --seed 5"
    done = run("demo", "--conversations", "2", "-o", "out", *options.split())
    assert done.returncode == 0, done.stderr
    metadata, cases = load_benchmark(tmp_path / "out/benchmark.json")
    assert metadata["knobs"] == {
        "conversations": 2,
        "seed": 5,
        "domains": ["fraud", "privacy"],
        "rules": [10, 16, 20],
        "violated": [0.3, 0.2, 0.2],
        "distractors": 0.4,
        "exceptions": 0,
        "depth": 3,
        "turns": [8, 9],
        "shift": 0,
    }
    assert not any(E in case.rule_types.values() for case in cases)
    wrong = run("demo", "-o", "other", "--depth", "0")
    assert (wrong.returncode, wrong.stderr) == (1, "Error: depth is 0, must be at least 1\n")
    assert not (tmp_path / "other").exists()


def test_demo_rejects_unknown_knobs(tmp_path):
    with pytest.raises(DataError, match=r"unknown knobs dept; allowed: conversations, depth"):
        demo(1, 0, tmp_path, dept=3)
