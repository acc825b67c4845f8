import json
from dataclasses import replace

import pytest

from safepyramid.dataset.check import (
    Problem,
    check_cases,
    check_file,
    render_problems,
    require_clean,
)
from safepyramid.dataset.load import case_to_dict, data_hash
from safepyramid.errors import DataError
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType

CONVERSATION = "Turn 1 - User: Hi\nTurn 1 - Chatbot: Ho"
FRAMEWORK = "## Lamps\n\n1. A lamp is a promise."
BASE = {2: "The chatbot must greet.", 1: "The chatbot must not lie.", 3: "The chatbot must pay."}
MORE = {
    5: "If the user is a clerk and says so, Rule 2 is waived. Instead, the chatbot must bow.",
    4: "For clerks, Rule 3 also requires a receipt.",
}


def entry(rule, kind, violated=False, paired_with=()):
    text = (BASE | MORE)[rule]
    return RubricEntry(rule, text, RuleType(kind), violated, paired_with)


def case(level):
    """Rule 1 is a distractor, 2 is waived and broken, 3 is contradicted, 5 is unmet."""
    low = level is Level.L0
    rules = BASE if low else BASE | MORE
    framework = FRAMEWORK if level is Level.L2 else ""
    body = "\n".join(f"{n}. {text}" for n, text in rules.items()).replace(
        "must bow.", "must bow. [overrides: Rule 2]"
    )
    rubric = (entry(2, "decisive", low), entry(3, "decisive", not low), entry(1, "distractor"))
    if not low:
        rubric += (entry(5, "exception", True, (2,)), entry(4, "conditional", False, (3,)))
    return Case(
        id=f"frau-001-{level.lower()}",
        domain="fraud",
        level=level,
        ground_truth_violations=frozenset({2} if low else {3, 5}),
        conversation=CONVERSATION,
        framework=framework,
        policy=f"Check all rules.\n\n{framework}\n\n{body}",
        rubric=rubric,
        failure_mode_metadata=FailureModeMetadata(
            frozenset({1}), frozenset() if low else frozenset({2}), frozenset({3} - {3 * low})
        ),
    )


L0, L1, L2 = (case(level) for level in Level)


def modes(distractor=(1,), waived=(2,), contradicted=(3,)):
    return FailureModeMetadata(*map(frozenset, (distractor, waived, contradicted)))


def test_sound_data_has_no_problems():
    assert check_cases([L0, L1, L2]) == []
    assert check_cases([L2]) == []
    assert check_cases([]) == []
    own = [replace(c, id=f"own {c.level}", domain="games") for c in (L0, L1, L2)]
    assert check_cases(own) == []


def rubric(case, *changed):
    """The case's rubric with the entries of the same rules replaced."""
    by_rule = {entry.rule: entry for entry in changed}
    return replace(case, rubric=tuple(by_rule.get(e.rule, e) for e in case.rubric))


@pytest.mark.parametrize(
    ("changed", "field", "messages"),
    [
        (replace(L0, domain="privacy"), "id", ["begins with 'frau', but the domain is 'privacy'"]),
        (replace(L1, id="frau-001-l2"), "id", ["ends with 'l2', but the level is L1"]),
        (replace(L0, conversation=" \n"), "conversation", ["is empty"]),
        (
            replace(L0, conversation="User: Hi"),
            "conversation",
            [
                "a conversation must begin with 'Turn 1 - User:' or 'Turn 1 - Chatbot:', "
                "not 'User: Hi'"
            ],
        ),
        (
            replace(L0, conversation="Turn 1 - User: Hi\nTurn 3 - Chatbot: Ho"),
            "conversation",
            ["turn 1 of the user holds 'Turn 3 - Chatbot:', which is not the turn that comes next"],
        ),
        (
            replace(L0, conversation="Turn 1 - User: Hi\nTurn 1 - Chatbot:"),
            "conversation",
            ["turn 1 of the chatbot is empty"],
        ),
        (
            replace(L1, framework="Check all rules."),
            "framework",
            ["is not empty, but the level is L1"],
        ),
        (
            replace(L2, framework="", policy=L1.policy),
            "framework",
            ["is empty, but the level is L2"],
        ),
        (
            replace(L2, framework=FRAMEWORK + " So.", policy=L1.policy),
            "framework",
            ["is no verbatim part of the policy"],
        ),
        (
            replace(L0, policy="Be nice."),
            "policy",
            [
                "no rules found in the policy 'Be nice.'; number them, each on a new line: "
                "1. The chatbot must …"
            ],
        ),
        (
            replace(L0, policy=L0.policy + " Rule 9 stands."),
            "policy",
            ["rule 3 names rules that do not exist: 9"],
        ),
        (
            replace(L0, ground_truth_violations=frozenset({2, 7})),
            "ground_truth_violations",
            ["names rules that the policy lacks: 7"],
        ),
        (
            replace(L0, rubric=L0.rubric + L0.rubric[1:2]),
            "rubric",
            ["has more than one entry for rules 3"],
        ),
        (
            replace(L0, rubric=L0.rubric[:1] + L0.rubric[2:]),
            "rubric",
            ["lacks rules of the policy: 3"],
        ),
        (
            replace(L0, rubric=(*L0.rubric, replace(L0.rubric[1], rule=8))),
            "rubric",
            ["has rules that the policy lacks: 8"],
        ),
        (
            rubric(L0, replace(entry(3, "decisive"), text="The chatbot may")),
            "rubric",
            ["the text of rule 3 is not how the policy's rule begins"],
        ),
        (
            rubric(L0, replace(entry(3, "decisive"), text="")),
            "rubric",
            ["the text of rule 3 is not how the policy's rule begins"],
        ),
        (
            rubric(L0, entry(3, "decisive", True)),
            "rubric",
            ["violations differ from the ground truth in rules 3"],
        ),
        (
            replace(
                rubric(L0, entry(1, "distractor", True)), ground_truth_violations=frozenset({1, 2})
            ),
            "ground_truth_violations",
            ["holds rule 1, a distractor"],
        ),
        (
            replace(
                rubric(L1, entry(4, "conditional", True, (3,))),
                ground_truth_violations=frozenset({3, 4, 5}),
            ),
            "ground_truth_violations",
            ["holds rule 4, a conditional"],
        ),
        (
            rubric(L0, entry(3, "exception", False, (2,))),
            "rubric",
            ["rule 3 is of type exception, but the level is L0"],
        ),
        (
            rubric(L1, entry(5, "exception", True)),
            "rubric",
            ["rule 5 is of type exception and has no paired_with"],
        ),
        (
            rubric(L1, entry(1, "distractor", False, (2,))),
            "rubric",
            ["rule 1 is of type distractor and has a paired_with"],
        ),
        (
            rubric(L1, entry(5, "exception", True, (2, 5, 9))),
            "rubric",
            ["rule 5 is paired with 5, 9, no other rule"],
        ),
        (
            replace(L1, failure_mode_metadata=modes(distractor=(2,))),
            "failure_mode_metadata",
            ["distractor_rules differ from the rubric in rules 1, 2"],
        ),
        (
            replace(L1, failure_mode_metadata=modes(waived=(1, 2))),
            "failure_mode_metadata",
            ["waived_rules without exception paired with them: 1"],
        ),
        (
            replace(L1, failure_mode_metadata=modes(waived=(3,))),
            "failure_mode_metadata",
            [
                "waived_rules without exception paired with them: 3",
                "waived_rules are in the ground truth: 3",
            ],
        ),
        (
            replace(L1, failure_mode_metadata=modes(contradicted=(2,))),
            "failure_mode_metadata",
            [
                "contradicted_rules without conditional paired with them: 2",
                "contradicted_rules are missing in the ground truth: 2",
            ],
        ),
    ],
)
def test_problems_within_a_case(changed, field, messages):
    found = [problem for problem in check_cases([changed]) if problem.field == field]
    assert found == [Problem(changed.id, field, message) for message in messages]


def test_numbers_with_a_gap():
    policy = f"1. {BASE[1]}\n2. {BASE[2]}\n4. The chatbot must pay."
    entries = (*L0.rubric[:1], *L0.rubric[2:], replace(L0.rubric[1], rule=4))
    assert check_cases([replace(L0, policy=policy, rubric=entries)]) == [
        Problem("frau-001-l0", "policy", "rule numbers are not 1 to 3: 1, 2, 4")
    ]


def test_rubric_texts_are_compared_without_notes_and_white_space():
    changed = replace(L1.rubric[3], text=MORE[5].replace(" Instead", "\n Instead"))
    assert check_cases([rubric(L1, changed)]) == []
    noted = replace(L1.rubric[3], text=MORE[5] + " [overrides: Rule 2]")
    assert check_cases([rubric(L1, noted)]) == []


def test_one_id_in_several_spellings():
    own = [replace(L0, id=name) for name in ("a", "b", "A", "a ", "a")]
    assert check_cases(own) == [
        Problem(name, "id", "another case has the id 'a'") for name in ("A", "a ", "a")
    ]


def test_levels_of_a_conversation():
    other = replace(L0, id="frau-002-l0")
    again = replace(L1, id="FRAU-001-L1")
    odd = replace(L2, conversation=CONVERSATION + "!")
    assert check_cases([L0, L1, other, again, odd]) == [
        Problem("FRAU-001-L1", "id", "another case has the id 'frau-001-l1'"),
        Problem("frau-001-l0", "level", "frau-001 has several cases at L1"),
        Problem("frau-001-l2", "conversation", "differs from that of frau-001-l0"),
        Problem("frau-002-l0", "level", "frau-002 has no case at L1, L2"),
    ]
    assert check_cases([L0, other]) == []


def test_every_problem_of_every_case_is_reported():
    bad = replace(L0, conversation="", domain="privacy")
    fields = [(problem.case_id, problem.field) for problem in check_cases([bad, L1, L2])]
    assert fields == [
        ("frau-001-l0", "id"),
        ("frau-001-l0", "conversation"),
        ("frau-001-l1", "conversation"),
        ("frau-001-l2", "conversation"),
    ]


def test_only_what_would_spoil_a_run_stops_it():
    require_clean([L0, L1, L2])
    require_clean([L1])
    require_clean([replace(L0, domain="privacy", framework="x")])
    with pytest.raises(DataError, match=r"^the data cannot be run: A: id another case has the id"):
        require_clean([replace(L0, id="a"), replace(L0, id="A")])
    for changes, message in (
        ({"conversation": " "}, "frau-001-l0: conversation is empty; see `safepyramid validate`"),
        ({"policy": "Be nice."}, "frau-001-l0: policy no rules found"),
        (
            {"ground_truth_violations": frozenset({2, 9})},
            "frau-001-l0: ground_truth_violations names rules that the policy lacks: 9",
        ),
        ({"rubric": L0.rubric[:2]}, "frau-001-l0: rubric lacks rules of the policy: 1"),
        ({"rubric": L1.rubric}, "frau-001-l0: rubric has rules that the policy lacks: 4, 5"),
        ({"id": "a\ud800"}, "a\ufffd: id holds half of a surrogate pair: '\\ud800' at 1"),
    ):
        with pytest.raises(DataError) as caught:
            require_clean([replace(L0, **changes)])
        assert message in str(caught.value)
    with pytest.raises(DataError, match="; and 5 more; see"):
        require_clean([replace(L0, id=str(n), conversation="") for n in range(25)])


def test_half_a_surrogate_pair_is_reported_in_words_that_can_be_written():
    half = "\udc00"
    bad = replace(
        L0, id=half, conversation=CONVERSATION + half, policy=L0.policy.replace("C", half, 1)
    )
    problems = check_cases([bad])
    assert [problem.field for problem in problems] == ["id", "conversation", "policy"]
    assert all("half of a surrogate pair: '\\udc00'" in problem.message for problem in problems)
    render_problems(problems, {}, [bad]).encode("utf-8")


def test_rendered_problems():
    bad = replace(L0, domain="privacy")
    metadata = {"safepyramid": {"source": "x.json", "sha256": "0f", "revision": None}}
    assert render_problems(check_cases([bad, L1, L2]), metadata, [bad, L1, L2]).split("\n") == [
        "x.json: 2 of 3 cases without problems, 1 problem",
        "sha256: 0f",
        f"data hash: {data_hash([bad, L1, L2])}",
        "frau-001-l0: id: begins with 'frau', but the domain is 'privacy'",
    ]
    assert render_problems([], {}, [L0]).startswith("data: 1 of 1 cases without problems, 0 ")


# --- files with rows that are no cases


def check_rows(tmp_path, rows):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    metadata, found, problems = check_file(path)
    text = render_problems(problems, metadata, found.cases, found.unread)
    return problems, text.split("\n")


def test_every_fault_of_every_row_is_reported(tmp_path):
    rows = [{"id": f"own {n}", "level": "L9"} for n in range(40)]
    problems, lines = check_rows(tmp_path, [*rows, 5])
    # level, policy, domain, truth, conversation, rubric, failure modes
    assert len(problems) == 40 * 7 + 1
    assert len({problem.case_id for problem in problems}) == 41
    assert lines[0].endswith("rows.json: 0 of 41 cases without problems, 281 problems")
    assert "data hash: none, 41 cases cannot be read" in lines
    assert "own 39: level: is 'L9', must be L0, L1 or L2" in lines
    assert lines[-1] == "case 41: is 5, must be an object"


def test_rows_that_are_no_cases_hide_nothing_of_the_others(tmp_path):
    low = case_to_dict(replace(L0, domain="privacy"))
    broken = case_to_dict(L1) | {"policy": None}
    other = case_to_dict(replace(L2, conversation=CONVERSATION + "!"))
    problems, lines = check_rows(tmp_path, [low, broken, other])
    # and the conversation does not count as one without L1
    assert problems == [
        Problem("frau-001-l1", "policy", "is missing, must be text, not empty"),
        Problem("frau-001-l0", "id", "begins with 'frau', but the domain is 'privacy'"),
        Problem("frau-001-l2", "conversation", "differs from that of frau-001-l0"),
    ]
    assert lines[0].endswith("rows.json: 0 of 3 cases without problems, 3 problems")


@pytest.mark.parametrize("second", [{}, {"policy": 3}])
def test_an_id_that_two_rows_have_hides_nothing(tmp_path, second):
    rows = [case_to_dict(L0), case_to_dict(L0) | second, case_to_dict(L1), case_to_dict(L2)]
    rows[2]["domain"] = "privacy"
    problems, _ = check_rows(tmp_path, rows)
    assert Problem("frau-001-l0", "id", "another case has the id 'frau-001-l0'") in problems
    assert ("frau-001-l1", "id") in {problem[:2] for problem in problems}


def test_sound_rows_have_a_hash_and_no_problem(tmp_path):
    problems, lines = check_rows(tmp_path, [case_to_dict(each) for each in (L0, L1, L2)])
    assert problems == []
    assert f"data hash: {data_hash([L0, L1, L2])}" in lines


def test_what_acts_on_a_terminal_is_shown_as_a_mark():
    bad = replace(L0, id="a\x1b[31m\nfine\u202e", conversation="")
    text = render_problems(check_cases([bad]), {}, [bad])
    assert text.split("\n")[-1] == "a\ufffd[31m fine\ufffd: conversation: is empty"
