"""The parts of the construction: scenarios, settings, draws, duplicates, replies, drafts."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_models import base, bases, conversation, modifier

from safepyramid.construct.assemble import assemble
from safepyramid.construct.drafts import (
    ConversationForm,
    FrameworkForm,
    L0Form,
    L1Form,
    L2Form,
    VotesForm,
    sort_drafts,
)
from safepyramid.construct.draws import assignments, draw_conversation, draw_counts, draw_note
from safepyramid.construct.duplicates import near_duplicates, shingles, similarity
from safepyramid.construct.procedural import Knobs, write_conversation
from safepyramid.construct.questions import Templates
from safepyramid.construct.reading import Malformed, Refused, read_form
from safepyramid.construct.scenarios import load_scenarios, scenario_problems
from safepyramid.construct.settings import read_settings
from safepyramid.construct.source import SourceConversation, SourceRule
from safepyramid.dataset.check import check_cases
from safepyramid.errors import DataError, GuardError
from safepyramid.schema import DOMAINS, Level, RuleType, Turn

# --- Scenarios -----------------------------------------------------------------------------------

ENTRY = {
    "id": "bank_support-01",
    "title": "A lost card",
    "situation": "Somebody has lost a card.",
    "careful": "Blocks it.",
    "careless": "Reads out the number.",
    "context": ["it was lost on Sunday", "the card is her husband's"],
}


def catalogue(folder, *entries, domain="bank_support", name="bank.yaml"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"domain": domain, "scenarios": list(entries)}))
    return folder


def test_the_bundled_catalogue_is_clean():
    assert scenario_problems() == []
    scenarios = load_scenarios()
    assert len(scenarios) == 300
    assert {scenario.domain for scenario in scenarios} == set(DOMAINS)


def test_a_catalogue_of_ones_own(tmp_path):
    folder = catalogue(tmp_path / "own", ENTRY)
    assert scenario_problems(folder) == []
    (found,) = load_scenarios(folder)
    assert (found.domain, found.id) == ("bank_support", "bank_support-01")


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([{**ENTRY, "id": "bank-01"}], "id 'bank-01' must be bank_support-01"),
        ([{**ENTRY, "id": "bank_support-1"}], "id 'bank_support-1' must be"),
        (
            [{k: v for k, v in ENTRY.items() if k != "careful"}],
            "scenarios.0.careful: Field required",
        ),
        ([{**ENTRY, "mood": "grim"}], "scenarios.0.mood: Extra inputs are not permitted"),
        ([{**ENTRY, "context": ["one"]}], "scenarios.0.context"),
        ([{**ENTRY, "title": " "}], "scenarios.0.title"),
        ([ENTRY, ENTRY], "id used more than once: 'bank_support-01'"),
        ([ENTRY, {**ENTRY, "id": "bank_support-02"}], "title used more than once: 'a lost card'"),
        ([], "scenarios: List should have at least 1 item"),
    ],
)
def test_faults_of_a_catalogue_are_named(tmp_path, entries, problem):
    folder = catalogue(tmp_path / "own", *entries)
    assert any(problem in line for line in scenario_problems(folder))
    with pytest.raises(DataError):
        load_scenarios(folder)


def test_domains_must_differ_in_what_ids_begin_with(tmp_path):
    folder = catalogue(tmp_path / "own", ENTRY)
    other = {**ENTRY, "id": "bank_loans-01", "title": "A loan", "situation": "A loan is asked for."}
    catalogue(folder, other, domain="bank_loans", name="loans.yaml")
    assert "begin alike" in scenario_problems(folder)[0]


@pytest.mark.parametrize("domain", ["it_support", "b2b_sales", "ai_safety", "x1__"])
def test_a_domain_may_have_any_name_that_is_an_identifier(tmp_path, domain):
    """Its conversations can be numbered, written down, and pass the checks."""
    folder = catalogue(tmp_path / "own", {**ENTRY, "id": f"{domain}-01"}, domain=domain)
    (made, *_) = assignments(read_settings(None), load_scenarios(folder))
    assert made.id == f"{domain[:4]}-001"
    source = write_conversation("fraud", 1, Knobs()).model_dump()
    turns = [{turn["role"]: turn["text"]} for turn in source["turns"]]
    own = SourceConversation.model_validate(
        {**source, "turns": turns, "id": made.id, "domain": domain}
    )
    cases = [assemble(own, level) for level in Level]
    assert check_cases(cases) == []
    strange = [replace(case, domain="other_things") for case in cases]
    assert [problem.field for problem in check_cases(strange)] == ["id"] * 3


@pytest.mark.parametrize("domain", ["it", "2fa_help", "IT_support", "it-support", "_it_support"])
def test_other_names_of_domains_are_refused_before_anything_is_asked(tmp_path, domain):
    folder = catalogue(tmp_path / "own", {**ENTRY, "id": f"{domain}-01"}, domain=domain)
    with pytest.raises(DataError, match=r"bank\.yaml: domain: String should match"):
        load_scenarios(folder)


def test_a_folder_that_is_named_like_a_file_is_said_to_be_none(tmp_path):
    folder = catalogue(tmp_path / "own", ENTRY)
    (folder / "more.yaml").mkdir()
    with pytest.raises(DataError, match=r"more\.yaml: cannot be read: Is a directory"):
        load_scenarios(folder)


def test_a_folder_without_files_is_no_catalogue(tmp_path):
    (problem,) = scenario_problems(tmp_path)
    assert "no *.yaml here" in problem


# --- Settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"conversation": 3}, "conversation: no such setting"),
        ({"models.l0": "gpt"}, "models.l0.model"),
        ({"models.validators": ["a/b", "a/b"]}, "a/b more than once: one model, one vote"),
        ({"models.validators": ["a/b"]}, "1 are left for L0"),
        (
            {"models.validators": ["openai/gpt-5.4", "a/b"]},
            "1 are left for L0, which openai/gpt-5.4",
        ),
        ({"quorum": 4}, "give at least 4 others"),
        ({"quorum": 1}, "greater than or equal to 2"),
        ({"exchanges": [0, 0]}, "exchanges: a conversation has at least 1"),
        ({"levels.L0.rules": [5, 3]}, "levels.L0.rules: 5 to 3 is no range"),
        ({"levels.L0.exception": [1, 1]}, "levels.L0.exception: L0 has none of its own"),
        ({"models.l0": {"model": "a/b", "args": {"api_key": "x"}}}, "looks like a secret"),
        ({"models.l0": {"model": "a/b", "base_url": "https://u:p@host/v1"}}, "user, password"),
        (
            {
                "models.l0": {
                    "model": "a/b",
                    "base_url": "https://host/v1/sk-planted-0123456789abcd",
                }
            },
            "base_url holds a user, password or key",
        ),
        (
            {"models.l0": {"model": "a/b", "base_url": "https://host/v1#key=planted0123"}},
            "base_url holds a user, password or key",
        ),
        (
            {"models.l0": {"model": "a/b", "base_url": "https://host/v1?api_key=sk-planted"}},
            "base_url holds a user, password or key",
        ),
        (
            {
                "models.l0": {
                    "model": "a/b",
                    "config": {"extra_headers": {"Authorization": "Bearer sk-planted"}},
                }
            },
            "config: 'extra_headers.Authorization' looks like a secret",
        ),
        (
            {"models.l0": {"model": "a/b", "args": {"default_headers": {"X-Api-Key": "planted"}}}},
            "args: 'default_headers.X-Api-Key' looks like a secret",
        ),
        (
            {"models.l0": {"model": "a/b", "args": {"urls": ["x", "sk-abcdef0123456789"]}}},
            "args: 'urls' looks like a secret",
        ),
        ({"undecided": "maybe"}, "undecided"),
        ({"seed.x": 1}, "seed is no group"),
    ],
)
def test_faults_of_settings_are_named(tmp_path, options, fault):
    (tmp_path / "s.yaml").write_text("seed: 3")
    with pytest.raises(DataError) as error:
        read_settings(tmp_path / "s.yaml", options)
    assert fault in str(error.value)
    assert "\n" not in str(error.value)
    assert "planted" not in str(error.value)


def test_settings_that_only_sound_like_secrets_are_none():
    role = {
        "model": "a/b",
        "base_url": "https://host/v1?api-version=2026-01-01",
        "config": {
            "max_tokens": 100,
            "reasoning_tokens": 50,
            "extra_body": {"stop_token_ids": [1, 2], "prompt_cache_key": "mine"},
            "extra_headers": {"X-Title": "Brindle Bank"},
        },
    }
    assert read_settings(None, {"models.l0": role}).models.l0.config == role["config"]


def test_options_win_and_levels_keep_what_is_not_given(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("seed: 3\nconversations: 5\nscenarios: mine\nlevels: {L0: {rules: [10, 18]}}")
    found = read_settings(path, {"conversations": 7, "models.l0": "a/b"})
    assert (found.seed, found.conversations, found.models.l0.model) == (3, 7, "a/b")
    assert (found.levels.L0.rules, found.levels.L0.decisive) == ((10, 18), (8, 9))
    assert found.scenarios == str(tmp_path / "mine")


def test_who_checks_is_the_pool_without_the_author():
    models = read_settings(None).models
    for level in Level:
        names = {role.model for role in models.checkers(level)}
        assert len(names) == 3
        assert models.author(level).model not in names
    assert [read_settings(None).quorum_of(level) for level in Level] == [2, 2, 2]


# --- Draws ---------------------------------------------------------------------------------------

DEFAULT = read_settings(None)
MADE = assignments(DEFAULT, load_scenarios())


def test_a_thousand_conversations_use_all_scenarios_evenly():
    assert len({item.id for item in MADE}) == len(MADE) == 1000
    uses = Counter(item.scenario.id for item in MADE)
    assert len(uses) == 300
    assert set(uses.values()) == {3, 4}
    # published: 12.8 exchanges on average
    lengths = [draw_conversation(DEFAULT, item, 1).exchanges for item in MADE]
    assert fmean(lengths) == pytest.approx(12.8, abs=0.15)
    assert (min(lengths), max(lengths)) == (10, 16)


def test_draws_depend_on_seed_id_and_attempt_alone():
    other = read_settings(None, {"seed": 1, "domains": ["privacy"], "conversations": 3})
    few = assignments(other, load_scenarios())
    twin = next(item for item in MADE if item.id == few[2].id)
    assert draw_conversation(DEFAULT, twin, 1) == draw_conversation(DEFAULT, few[2], 1)
    assert draw_conversation(DEFAULT, twin, 1) != draw_conversation(DEFAULT, twin, 2)
    assert draw_conversation(DEFAULT, twin, 1) != draw_conversation(other, twin, 1)
    assert len({draw_conversation(DEFAULT, item, 1) for item in MADE}) == 1000


@settings(deadline=None)
@given(st.integers(0, 199), st.sampled_from(list(Level)), st.integers(14, 18))
def test_authors_are_never_asked_for_more_than_a_case_may_have(number, level, inherited):
    inherited = inherited if level is Level.L1 else 0
    counts = draw_counts(DEFAULT, MADE[number], level, inherited)
    low, high = DEFAULT.levels.of(level).rules
    assert low <= inherited + sum(counts.values()) <= high
    for kind in RuleType:
        asked = getattr(DEFAULT.levels.of(level), kind.value)
        assert counts[kind] <= asked[1]
        assert (counts[kind] > 0) == (asked[1] > 0)


def test_a_quarter_of_the_modifiers_carry_a_note():
    notes = [draw_note(DEFAULT, MADE[0], Level.L1, f"key-{n}") for n in range(2000)]
    assert fmean(notes) == pytest.approx(0.25, abs=0.03)


def test_an_unknown_domain_is_named():
    with pytest.raises(
        DataError, match="unknown domain frog; the catalogue has academic_integrity"
    ):
        assignments(read_settings(None, {"domains": ["frog"]}), load_scenarios())


# --- Duplicates ----------------------------------------------------------------------------------

words = st.lists(st.sampled_from("abcd"), max_size=14).map(" ".join)


@settings(deadline=None)
@given(st.lists(words, max_size=7), st.sampled_from([0.1, 0.3, 0.7, 1.0]))
def test_duplicates_are_those_of_pairwise_comparison(texts, threshold):
    named = {f"t{n}": text for n, text in enumerate(texts)}
    kept, expected = [], {}
    for name, text in sorted(named.items()):
        twins = [k for k in kept if similarity(shingles(text), shingles(named[k])) >= threshold]
        if twins:
            expected[name] = min(twins)
        else:
            kept.append(name)
    assert near_duplicates(named, threshold) == expected


def test_similarity_by_hand():
    # sequences of five: "a b c d e", "b c d e f" | "b c d e f", "c d e f g": 1 of 3 in common
    assert similarity(shingles("a b c d e f"), shingles("b c, d e F g")) == pytest.approx(1 / 3)
    assert similarity(shingles(""), shingles("")) == 0
    for one, other in combinations(["a", "b", "a b"], 2):
        assert similarity(shingles(one), shingles(other)) == 0
    assert similarity(shingles("A b."), shingles("a b")) == 1


# --- Replies -------------------------------------------------------------------------------------

TERMS = ", ".join(['{"term": "t", "definition": "d"}'] * 3)
GOOD = f'{{"name": "N", "purpose": "P", "terms": [{TERMS}], "precedence": "x"}}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"<think>First {{}} then.</think>\n{GOOD}",
        f"\ufeff {GOOD} ",
        GOOD.replace('"P"', '"P\nover two lines"'),
        GOOD.replace('"P"', '"\\u00e9 \\ud83d\\ude00"'),
    ],
)
def test_replies_that_are_read(text):
    assert read_form(text, FrameworkForm).name == "N"


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("", Malformed, "not one JSON object"),
        ("null", Malformed, "another form"),
        (f"[{GOOD}]", Malformed, "another form"),
        (f"Here it is: {GOOD}", Malformed, "not one JSON object"),
        (f"{GOOD} {GOOD}", Malformed, "not one JSON object"),
        (GOOD[:-3], Malformed, "not one JSON object"),
        (f"<think>{GOOD}", Malformed, "not one JSON object"),
        (GOOD.replace("}]", "},]"), Malformed, "not one JSON object"),
        (GOOD.replace('"P"', "NaN"), Malformed, "NaN is no JSON"),
        (GOOD.replace('"P"', "3"), Malformed, "purpose: Input should be a valid string"),
        (GOOD.replace('"P"', '" "'), Malformed, "purpose: String should have at least 1"),
        (GOOD.replace('"P"', '"\\ud83d"'), Malformed, "surrogate"),
        (GOOD.replace('"purpose"', '"name"'), Malformed, "'name' stands twice"),
        (GOOD.replace('"purpose"', '"aim"'), Malformed, "purpose: Field required"),
        (GOOD.replace('"x"', '"x", "more": 1'), Malformed, "more: Extra inputs"),
        ("[" * 10_000, Malformed, "not one JSON object"),
        ("I'm sorry, but I can't help with that.", Refused, "declined"),
        ("Lo siento, no puedo ayudar con eso.", Refused, "declined"),
    ],
)
def test_replies_that_are_not(text, error, why):
    with pytest.raises(error, match=why):
        read_form(text, FrameworkForm)


FORMS = {
    "conversation": ConversationForm,
    "l0": L0Form,
    "l1": L1Form,
    "framework": FrameworkForm,
    "l2": L2Form,
    "repair": L2Form,
    "validate-rules": VotesForm,
}


@pytest.mark.parametrize("name", FORMS)
def test_the_example_in_each_template_has_the_form_that_is_asked_for(name):
    example = Templates()[name].strip().split("\n")[-1]
    assert example.startswith("{")
    read_form(example.replace("{{", "{").replace("}}", "}"), FORMS[name])


def test_templates_can_be_replaced_by_ones_own(tmp_path):
    (tmp_path / "style.md").write_text("In this style: {{ style }}")
    templates = Templates(tmp_path)
    assert templates.fill("style", style="terse") == "In this style: terse"
    assert templates.hash("l0") == Templates().hash("l0")
    assert templates.hash("style") != Templates().hash("style")
    (tmp_path / "style.md").write_text("{{ stile }}")
    with pytest.raises(GuardError, match="unknown gaps stile; allowed: style"):
        Templates(tmp_path)
    (tmp_path / "style.md").write_text("In this style: terse")
    with pytest.raises(GuardError, match=r"'style\.md' lacks \{\{ style \}\}"):
        Templates(tmp_path)
    (tmp_path / "style.md").write_bytes("In this style, für uns: {{ style }}".encode("latin-1"))
    with pytest.raises(GuardError, match=r"'style\.md' is not UTF-8"):
        Templates(tmp_path)
    (tmp_path / "style.md").unlink()
    with pytest.raises(GuardError, match="holds no template"):
        Templates(tmp_path)
    (tmp_path / "styles.md").write_text("x")
    with pytest.raises(GuardError, match=r"'styles\.md' replaces no template"):
        Templates(tmp_path)
    with pytest.raises(GuardError, match="is no folder"):
        Templates(tmp_path / "nowhere")


# --- Drafts --------------------------------------------------------------------------------------

TOLD = "Turn 1 - User: tag asks"
TURNS = (Turn(1, "user", "tag asks in 1"), Turn(1, "chatbot", "tag replies in 1"),
         Turn(2, "user", "tag asks in 2"), Turn(2, "chatbot", "tag replies in 2"))  # fmt: skip
MANY = dict.fromkeys(RuleType, 9)
KNOWN = (
    SourceRule.model_validate(
        {"type": "decisive", **base(TOLD, "known", "engaged"), "quotes": [{"turn": 1, "role": "user", "text": "tag"}]}
    ),
)  # fmt: skip


def sorted_l2(**lists):
    form = {**{kind.value: [] for kind in RuleType}, **lists}
    return sort_drafts(L2Form.model_validate(form), TURNS, KNOWN, lambda key: key == "noted", MANY)


@pytest.mark.parametrize(
    ("lists", "fault"),
    [
        ({"decisive": [base(TOLD, "a", "", text="Obey [[known]].")]}, "a base rule stands alone: it names known"),
        ({"decisive": [base(TOLD, "a", "", text="Obey rule 12.")]}, "names a rule by number"),
        ({"decisive": [base(TOLD, "a", "", text="Obey [[Nope_X]].")]}, "brackets that name no rule: '[['"),
        ({"decisive": [base(TOLD, "a", "", text="Obey. [ Overrides: something 2]")]}, "'[ Overrides'"),
        (
            {"exception": [modifier(TOLD, "a", "known", True, True, text="If so, [[known]] is waived]].")]},
            "brackets that name no rule: ']]'",
        ),
        ({"distractor": [base(TOLD, "a", "", broken=True)]}, "a distractor is never broken"),
        ({"exception": [modifier(TOLD, "a", "lost", True, True)]}, "acts on what is no decisive rule that can be used: lost"),
        (
            {"exception": [modifier(TOLD, "e", "known", True, True), modifier(TOLD, "a", "e", True, True)]},
            "acts on what is no decisive rule that can be used: e",
        ),
        (
            {"distractor": [base(TOLD, "x", "")], "conditional": [modifier(TOLD, "a", "x", True, True)]},
            "acts on what is no decisive rule that can be used: x",
        ),
        ({"conditional": [modifier(TOLD, "a", "known", True, None)]}, "`met` is given exactly when"),
        ({"conditional": [modifier(TOLD, "a", "known", False, False)]}, "`met` is given exactly when"),
        (
            {"conditional": [modifier(TOLD, "a", "known", False, None, text="If x, then y.")]},
            "`modifies` and the keys in its text differ",
        ),
        (
            # a base that cannot be used takes with it what acts on it
            {"decisive": [base(TOLD, "b", "", text="Rule 1.")], "exception": [modifier(TOLD, "a", "b", False, None)]},
            "acts on what is no decisive rule that can be used: b",
        ),
    ],
)  # fmt: skip
def test_drafts_that_cannot_be_voted_on(lists, fault):
    found = sorted_l2(**lists)
    assert fault in found.faulty["a"][2]
    assert "a" not in {rule.key for rule in found.usable}


def test_drafts_that_can():
    quotes = [
        {"turn": 2, "role": "chatbot", "text": "replies in 2"},
        {"turn": 2, "role": "chatbot", "text": "replies in 3"},
        {"turn": 9, "role": "user", "text": "asks"},
    ]
    found = sorted_l2(
        decisive=[base(TOLD, "a", "", quotes=quotes), base(TOLD, "known", "")],
        exception=[modifier(TOLD, "noted", "a", True, False), modifier(TOLD, "plain", "known", False, None)],
    )  # fmt: skip
    assert [rule.key for rule in found.usable] == ["a", "noted", "plain"]
    assert [rule.note for rule in found.usable] == [False, True, False]
    assert [quote.text for quote in found.usable[0].quotes] == ["replies in 2"]
    assert found.surplus == (("known", RuleType.DECISIVE),)
    assert found.faulty == {}


def test_scripted_replies_have_the_forms_of_real_ones():
    told = "Write 3 decisive rules and 2 distractors. Exactly 11 exchanges. Turn 1 - User: tag x"
    assert len(read_form(conversation(told), ConversationForm).exchanges) == 11
    read_form(json.dumps(bases(told)), L0Form)
