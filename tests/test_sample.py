"""The bundled sample: its sources, the compiled files and the second reading."""

import json
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from safepyramid.construct.assemble import assemble, assemble_all, read_sources, source_problems
from safepyramid.construct.compile import FILES, compile_sources
from safepyramid.construct.scenarios import load_scenarios, scenario_problems
from safepyramid.construct.source import SourceConversation, SourceRule
from safepyramid.conversation import parse_conversation
from safepyramid.dataset.check import check_cases
from safepyramid.dataset.load import SAMPLE
from safepyramid.errors import DataError
from safepyramid.guards import load_guard
from safepyramid.metrics.summary import Record, summarize
from safepyramid.policy.parse import lint_policy, parse_policy
from safepyramid.schema import DOMAINS, Level, RuleType, State
from safepyramid.tokens import estimate_tokens

FOLDER = Path(str(SAMPLE))
SOURCES = read_sources(FOLDER)
RAW = {name: json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in FILES}
MODIFIED = [(source, level) for source in SOURCES for level in (Level.L1, Level.L2)]
each_modified = pytest.mark.parametrize(
    ("source", "level"), MODIFIED, ids=[f"{source.id}-{level}" for source, level in MODIFIED]
)


def test_compiled_files_are_what_the_sources_give(tmp_path):
    version = RAW[FILES[0]]["metadata"]["version"]
    assert compile_sources(FOLDER, tmp_path, version) == 36
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), f"{name} is stale"


def test_nothing_contradicts_the_form(sample):
    assert check_cases(sample) == []
    assert scenario_problems() == []
    assert [p for source in SOURCES for p in source_problems(source)] == []
    found = {case.id: lint_policy(parse_policy(case.policy, case.framework)) for case in sample}
    assert {id: findings for id, findings in found.items() if findings} == {}


def test_conversations_come_from_the_catalogue_and_cover_its_domains():
    scenarios = {scenario.id: scenario for scenario in load_scenarios()}
    assert len(scenarios) == 300
    assert {source.domain for source in SOURCES} == set(DOMAINS)
    assert all(scenarios[source.scenario].domain == source.domain for source in SOURCES)
    assert len({source.scenario for source in SOURCES}) == len(SOURCES) == 12


# Smallest and largest numbers of rules and of violated rules, and the most tokens of policy and
# conversation together: the maxima of the paper's table 2; the minima keep cases from being easy.
RANGES = {Level.L0: (14, 18, 4, 8, 2_500), Level.L1: (26, 33, 4, 10, 3_700)}
RANGES[Level.L2] = (30, 39, 5, 11, 5_900)


def test_shape_is_the_papers(sample):
    for case in sample:
        fewest, most, least, worst, tokens = RANGES[case.level]
        types = Counter(case.rule_types.values())
        assert fewest <= len(case.rubric) <= most, case.id
        assert least <= len(case.ground_truth_violations) <= worst, case.id
        assert estimate_tokens(case.policy) + estimate_tokens(case.conversation) <= tokens, case.id
        assert 10 <= parse_conversation(case.conversation)[-1].number <= 16, case.id
        if case.level is Level.L0:
            assert set(types) == {RuleType.DECISIVE, RuleType.DISTRACTOR}
            assert 7 <= types[RuleType.DECISIVE] <= 9, case.id
            assert 7 <= types[RuleType.DISTRACTOR] <= 9, case.id
        else:
            assert set(types) == set(RuleType), case.id


@pytest.mark.parametrize("name", ["none", "all", "random", "lexical"])
def test_who_does_not_read_scores_next_to_nothing(sample, name):
    predict = load_guard(name).predict
    records = [
        Record(
            case.id,
            case.level,
            case.domain,
            case.ground_truth_violations,
            State.ANSWERED,
            frozenset(predict(case)),
        )
        for case in sample
    ]
    cells = summarize(records)["groups"]
    assert {cells[level]["scored"] for level in Level} == {12}
    assert all(cells[level]["rmr"] < 0.15 for level in Level)


def altered(source: SourceConversation, key: str, level: Level, **changes) -> SourceConversation:
    """The source with one rule changed, in the policy that first has it."""
    home = level
    while key not in {rule.key for rule in source.policies[home].rules}:
        home = source.policies[home].inherits
    policy = source.policies[home]
    rules = tuple(
        rule.model_copy(update=changes) if rule.key == key else rule for rule in policy.rules
    )
    policies = {**source.policies, home: policy.model_copy(update={"rules": rules})}
    return source.model_copy(update={"policies": policies})


def acting(rules: list[SourceRule], kind: RuleType) -> dict[str, list[SourceRule]]:
    """Base key -> the triggered modifiers of a kind that act on it."""
    found = defaultdict(list)
    for rule in rules:
        if rule.type is kind and rule.triggered:
            for key in rule.modifies:
                found[key].append(rule)
    return found


def flips_that_matter(source: SourceConversation, level: Level):
    """Single raw judgments that decide the net set, with the opposite of each.

    A base rule's own text decides where nothing waives it and no unmet conditional tightens it;
    a conditional where its base is neither waived nor broken and no other one is unmet there; an
    exception always, since with an unmet standard it is itself violated.
    """
    rules = source.rules(level)
    broken = {rule.key: rule.broken for rule in rules}
    waived = acting(rules, RuleType.EXCEPTION)
    unmet = {
        key: [rule for rule in tightening if not rule.met]
        for key, tightening in acting(rules, RuleType.CONDITIONAL).items()
    }
    for rule in rules:
        if rule.type is RuleType.EXCEPTION:
            new = {"met": not rule.met} if rule.triggered else {"triggered": True, "met": False}
            yield rule.key, new
        elif rule.type is RuleType.CONDITIONAL:
            open_bases = [
                key
                for key in rule.modifies
                if not waived[key] and not broken[key] and unmet.get(key, []) in ([], [rule])
            ]
            new = {"met": not rule.met} if rule.triggered else {"triggered": True, "met": False}
            if open_bases:
                yield rule.key, new
        elif not waived[rule.key] and not unmet.get(rule.key):
            yield rule.key, {"broken": not rule.broken}


FLIPPED = SOURCES[-1]
FLIPS = [(level, *flip) for level in Level for flip in flips_that_matter(FLIPPED, level)]


def test_most_judgments_decide_something():
    # Of 81 rules: what is waived, and what tightens a waived or a broken rule, decides nothing.
    assert len(FLIPS) > 0.7 * sum(len(FLIPPED.rules(level)) for level in Level)


@pytest.mark.parametrize(("level", "key", "new"), FLIPS, ids=lambda value: str(value)[:40])
def test_one_wrong_judgment_is_noticed(level, key, new):
    assemble(FLIPPED, level)
    with pytest.raises(DataError, match="stated violated set and raw judgments disagree"):
        assemble(altered(FLIPPED, key, level, **new), level)


def test_one_wrong_quote_is_noticed():
    rule = FLIPPED.rules(Level.L2)[4]
    quotes = (rule.quotes[0].model_copy(update={"text": rule.quotes[0].text + "!?"}),)
    wrong = altered(FLIPPED, rule.key, Level.L2, quotes=quotes)
    [problem] = source_problems(wrong)
    assert f"{FLIPPED.id} L2 {rule.key}: turn {quotes[0].turn}" in problem
    with pytest.raises(DataError, match="does not say"):
        assemble_all([wrong])


def test_every_rule_has_quotes_and_a_reason():
    for row in RAW[FILES[1]]["data"]:
        turns = {(t.number, t.role): t.text for t in parse_conversation(row["conversation"])}
        for entry in row["rubric"]["violations"] + row["rubric"]["non_violations"]:
            [evidence] = entry["evidence"]
            assert evidence["reasoning"].endswith("."), (row["id"], entry["rule"])
            assert evidence["quotes"], (row["id"], entry["rule"])
            assert all(q["text"] in turns[q["turn"], q["role"]] for q in evidence["quotes"])


@each_modified
def test_all_kinds_of_modifiers_occur(source, level):
    rules = source.rules(level)
    broken = {rule.key: rule.broken for rule in rules}
    waived = acting(rules, RuleType.EXCEPTION)
    exceptions = Counter(
        (rule.triggered, rule.met) for rule in rules if rule.type is RuleType.EXCEPTION
    )
    assert exceptions[True, True]
    assert exceptions[True, False]
    # Two at least: one lacks a condition by a detail, one only the user believes in.
    assert exceptions[False, None] >= 2
    conditionals = Counter()
    for rule in rules:
        if rule.type is RuleType.CONDITIONAL and not rule.triggered:
            conditionals["inactive"] += 1
        elif rule.type is RuleType.CONDITIONAL:
            for key in rule.modifies:
                free = "met" if rule.met else "flips its base"
                kind = "violated anyway" if broken[key] else free
                conditionals["waived" if waived[key] else kind] += 1
    assert set(conditionals) == {"inactive", "met", "flips its base", "violated anyway", "waived"}


@each_modified
def test_a_base_is_waived_against_a_conditional(source, level):
    rules = source.rules(level)
    waived, tightened = acting(rules, RuleType.EXCEPTION), acting(rules, RuleType.CONDITIONAL)
    both = {key for key in waived if waived[key]} & {key for key in tightened if tightened[key]}
    assert both
    assert not both & source.policies[level].violated


@each_modified
def test_some_modifiers_carry_a_note(source, level):
    modifiers = [rule for rule in source.rules(level) if rule.type.is_modifier]
    assert 0.15 <= sum(rule.note for rule in modifiers) / len(modifiers) <= 0.35
    case = assemble(source, level)
    shown = parse_policy(case.policy, case.framework).rules
    assert sum(bool(rule.overrides) for rule in shown) == sum(rule.note for rule in modifiers)


def test_numbers_and_order_say_nothing(sample):
    for case in sample:
        numbers = [rule.number for rule in parse_policy(case.policy, case.framework).rules]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        rises = sum(a < b for a, b in pairwise(numbers))
        assert 0.2 < rises / (len(numbers) - 1) < 0.8, case.id


def test_numbers_and_places_do_not_tell_types_apart(sample):
    numbers, places = defaultdict(list), defaultdict(list)
    for case in sample:
        shown = [rule.number for rule in parse_policy(case.policy, case.framework).rules]
        for number, kind in case.rule_types.items():
            numbers[kind].append((number - 0.5) / len(shown))
            places[kind].append((shown.index(number) + 0.5) / len(shown))
    for found in (*numbers.values(), *places.values()):
        # Uniform from 0 to 1: mean 0.5, deviation 0.289; three standard errors of the mean.
        assert abs(fmean(found) - 0.5) < 3 * 0.289 / len(found) ** 0.5


def test_policies_do_not_say_what_a_rule_is(sample):
    words = re.compile(
        r"distractor|decisive|\bconditional|ground truth|\[\[|\btrigger", re.IGNORECASE
    )
    assert [(case.id, m[0]) for case in sample for m in words.finditer(case.policy)] == []
    keys = {r.key for source in SOURCES for level in source.policies for r in source.rules(level)}
    keys = {key for key in keys if key.count("-") >= 2}
    assert [(case.id, key) for case in sample for key in keys if key in case.policy] == []


HEADING = re.compile(r"^([A-Z][a-z ,]{2,40})\. ", re.MULTILINE)
FRAME = re.compile(r"Who|How|What|Order|Precedence|Rule|Of rules|A sequence|The words")


def test_l2_rules_speak_their_frameworks_language():
    for source in SOURCES:
        framework = source.policies[Level.L2].framework
        headings = [head for head in HEADING.findall(framework) if not FRAME.match(head)]
        assert len(headings) >= 5, source.id
        # Four letters tell "ferrying" from nothing and still find "ferry" and "ferried".
        stems = {w[:4] for head in headings for w in words_of(head)} - {"and", "word"}
        rules = source.rules(Level.L2)
        said = sum(any(w[:4] in stems for w in words_of(rule.text)) for rule in rules)
        assert said / len(rules) >= 0.85, source.id


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]{3,}", text.lower())


READING = json.loads((FOLDER / "second-reading.json").read_text(encoding="utf-8"))


def test_second_reading_covers_every_case(sample):
    assert list(READING) == sorted(case.id for case in sample)
    for case in sample:
        read = READING[case.id]
        assert list(read) == ["violated", "fires", "unsure", "two_ways"]
        modifiers = {n for n, kind in case.rule_types.items() if kind.is_modifier}
        assert set(read["fires"]) <= modifiers
        assert {*read["violated"], *read["unsure"], *map(int, read["two_ways"])} <= {
            *case.rule_types
        }
        assert all(read[name] == sorted(read[name]) for name in ("violated", "fires", "unsure"))
