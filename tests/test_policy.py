import time
from itertools import chain, combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safepyramid.errors import DataError
from safepyramid.policy.parse import (
    RawJudgment,
    Resolution,
    find_framework,
    lint_policy,
    parse_policy,
    related_rules,
    render_policy,
    resolve,
)
from safepyramid.policy.text import take_notes
from safepyramid.schema import RubricEntry, Rule, RuleType

BASE, TRAP, WAIVER, EXTRA = RuleType


def base(rule: int, broken: bool = False) -> RawJudgment:
    return RawJudgment(rule, BASE, broken=broken)


def exception(rule: int, *modifies: int, triggered: bool = True, met: bool = True) -> RawJudgment:
    return RawJudgment(rule, WAIVER, modifies, triggered=triggered, met=met)


def conditional(rule: int, *modifies: int, triggered: bool = True, met: bool = True) -> RawJudgment:
    return RawJudgment(rule, EXTRA, modifies, triggered=triggered, met=met)


@pytest.mark.parametrize(
    ("judgments", "violated", "waived", "contradicted", "active"),
    [
        pytest.param([], [], [], [], [], id="nothing"),
        pytest.param([base(1, True), base(2)], [1], [], [], [], id="own text decides"),
        pytest.param([base(1, True), exception(2, 1)], [], [1], [], [2], id="waived"),
        pytest.param(
            [base(1, True), exception(2, 1, met=False)], [2], [1], [], [2], id="exception unmet"
        ),
        pytest.param(
            [base(1, True), exception(2, 1, triggered=False, met=False)],
            [1],
            [],
            [],
            [],
            id="exception not triggered",
        ),
        pytest.param([base(1), conditional(2, 1, met=False)], [1], [], [1], [2], id="tightened"),
        pytest.param([base(1), conditional(2, 1)], [], [], [], [2], id="tighter standard met"),
        pytest.param(
            [base(1), conditional(2, 1, triggered=False, met=False)],
            [],
            [],
            [],
            [],
            id="conditional does not apply",
        ),
        pytest.param(
            [base(1, True), conditional(2, 1, met=False)],
            [1],
            [],
            [],
            [2],
            id="violated anyway: not contradicted",
        ),
        pytest.param(
            [base(1), exception(2, 1), conditional(3, 1, met=False)],
            [],
            [1],
            [],
            [2, 3],
            id="an exception beats a conditional",
        ),
        pytest.param(
            [base(1, True), exception(2, 1), exception(3, 2)],
            [1],
            [],
            [],
            [3],
            id="an exception to the exception",
        ),
        pytest.param(
            [base(1, True), exception(2, 1, met=False), exception(3, 2, met=False)],
            [1, 3],
            [],
            [],
            [3],
            id="a waived exception has no standard",
        ),
        pytest.param(
            [base(1, True), exception(2, 1), exception(3, 2), exception(4, 3)],
            [],
            [1],
            [],
            [2, 4],
            id="three deep",
        ),
        pytest.param(
            [base(1), conditional(2, 1, met=False), exception(3, 2)],
            [],
            [],
            [],
            [3],
            id="an exception to a conditional",
        ),
        pytest.param(
            [base(1, True), exception(2, 1), conditional(3, 2, met=False)],
            [2],
            [1],
            [],
            [2, 3],
            id="a conditional tightens an exception",
        ),
        pytest.param(
            [base(1, True), exception(2, 1, triggered=False), conditional(3, 2, met=False)],
            [1],
            [],
            [],
            [3],
            id="no tightening of what is not active",
        ),
        pytest.param(
            [base(1), conditional(2, 1), conditional(3, 2, met=False)],
            [1],
            [],
            [1],
            [2, 3],
            id="a conditional tightens a conditional",
        ),
        pytest.param(
            [base(1, True), base(2, True), base(3), exception(4, 1, 2)],
            [],
            [1, 2],
            [],
            [4],
            id="one exception, two rules",
        ),
        pytest.param([base(1), exception(2, 1)], [], [1], [], [2], id="waived though kept"),
    ],
)
def test_resolve(judgments, violated, waived, contradicted, active):
    expected = Resolution(*map(frozenset, (violated, waived, contradicted, active)))
    assert resolve(judgments) == expected


def test_resolve_names_faults():
    with pytest.raises(DataError, match="more than once: 3;"):
        resolve([base(3), base(3), base(1)])
    with pytest.raises(DataError, match="do not exist: 2 -> 9;"):
        resolve([base(1), exception(2, 1, 9)])
    with pytest.raises(DataError, match="circle: rules 2, 3;"):
        resolve([base(1), exception(2, 1, 3), exception(3, 2), exception(4, 1)])
    with pytest.raises(DataError, match="circle: rules 2;"):
        resolve([base(1), exception(2, 2)])


@st.composite
def judged_rules(draw):
    count = draw(st.integers(0, 7))
    numbers = draw(st.permutations(range(1, count + 1)))
    some = st.lists(st.sampled_from(numbers), max_size=3).map(tuple) if count else st.just(())
    return [
        RawJudgment(
            number,
            draw(st.sampled_from(RuleType)),
            draw(some),
            draw(st.booleans()),
            draw(st.booleans()),
            draw(st.booleans()),
        )
        for number in numbers
    ]


def subsets(items):
    items = list(items)
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def brute_force(judgments):
    """Search for the sets that fit the definitions, or None if there is not exactly one."""
    rules = {judgment.rule: judgment for judgment in judgments}
    modifiers = [n for n, j in rules.items() if j.type in (WAIVER, EXTRA)]

    def named_by(kind, among):
        return {t for n in among if rules[n].type is kind for t in rules[n].modifies}

    fitting = [
        set(active)
        for active in subsets(modifiers)
        if all(
            (n in active) == (rules[n].triggered and n not in named_by(WAIVER, active))
            for n in modifiers
        )
    ]
    if len(fitting) != 1:
        return None
    active = fitting[0]
    unmet = min(
        (
            set(unmet)
            for unmet in subsets(modifiers)
            if all(
                (n in unmet) or (rules[n].met and n not in named_by(EXTRA, active & set(unmet)))
                for n in modifiers
            )
        ),
        key=len,
    )
    violated, waived, contradicted = set(), set(), set()
    for n, judgment in rules.items():
        if judgment.type is EXTRA:
            continue
        if judgment.type is WAIVER:
            if n in active and n in unmet:
                violated.add(n)
        elif n in named_by(WAIVER, active):
            waived.add(n)
        elif judgment.broken:
            violated.add(n)
        elif n in named_by(EXTRA, active & unmet):
            violated.add(n)
            contradicted.add(n)
    return tuple(map(frozenset, (violated, waived, contradicted, active)))


def resolved(judgments):
    try:
        return resolve(judgments)
    except DataError:
        return None


@given(judged_rules())
def test_resolve_agrees_with_a_search_over_all_sets(judgments):
    result = resolved(judgments)
    assume(result is not None)
    assert tuple(result) == brute_force(judgments)


@given(judged_rules(), st.randoms())
def test_resolve_properties(judgments, random):
    result = resolved(judgments)
    shuffled = random.sample(judgments, len(judgments))
    assert resolved(shuffled) == result
    assume(result is not None)
    types = {judgment.rule: judgment.type for judgment in judgments}
    assert not any(types[n] is EXTRA for n in result.violated)
    assert not result.violated & result.waived
    assert result.contradicted <= result.violated
    assert all(types[n].is_modifier for n in result.active)
    assert not any(types[n].is_modifier for n in result.waived | result.contradicted)


def bodies(text, framework=""):
    return {rule.number: rule.text for rule in parse_policy(text, framework).rules}


A, B, C = "The chatbot must not lie.", "The chatbot must greet.", "The chatbot may not swear."


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n \n"])
@pytest.mark.parametrize(
    "form",
    [
        "{}. {}",
        "{}) {}",
        "Rule {}: {}",
        "Rule {}. {}",
        "rule {} - {}",
        "**Rule {}.** {}",
        "**Rule {}**: {}",
        "**{}.** {}",
        "[{}] {}",
        "({}) {}",
        "- Rule {}: {}",
        "  {}. {}",
        "### Rule {}:\n{}",
        "{}.\n{}",
    ],
)
def test_forms_of_numbering(form, gap):
    rules = [form.format(n, body) for n, body in ((3, C), (1, A), (2, B))]
    policy = parse_policy("Check all rules." + gap + gap.join(rules))
    assert policy.instruction == "Check all rules."
    assert [(rule.number, rule.text) for rule in policy.rules] == [(3, C), (1, A), (2, B)]


def test_bold_titles_stay_whole():
    assert bodies(f"**1. Lies.** {A}\n**2. Manners.** {B}") == {
        1: f"**Lies.** {A}",
        2: f"**Manners.** {B}",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"2. The chatbot must do so in order:\n1. greet\n2. ask\n\n1. {A}\n\n3. {C}",
            {2: "The chatbot must do so in order:\n1. greet\n2. ask", 1: A, 3: C},
            id="list in a rule, blank lines between the rules",
        ),
        pytest.param(
            f"1. The chatbot must do both:\n1. greet\n2. ask\n2. {A}\n3. {C}",
            {1: "The chatbot must do both:\n1. greet\n2. ask", 2: A, 3: C},
            id="list in a rule, single newlines",
        ),
        pytest.param(
            f"3. {A}\n1. The chatbot must greet:\n1. first\n2. again\n2. {C}",
            {3: A, 1: "The chatbot must greet:\n1. first\n2. again", 2: C},
            id="list between shuffled rules",
        ),
        pytest.param(
            f"1. {A}\n2. The chatbot must:\n1. a\n2. b\n3. c\n4. d\n5. e\n3. {C}",
            {1: A, 2: "The chatbot must:\n1. a\n2. b\n3. c\n4. d\n5. e", 3: C},
            id="a list longer than the policy",
        ),
        pytest.param(
            f"1. {A}\n2. The chatbot must:\n  1. a\n  2. b\n3. {C}",
            {1: A, 2: "The chatbot must:\n  1. a\n  2. b", 3: C},
            id="indented list",
        ),
        pytest.param(
            f"1. {A}\n2. The chatbot must:\n1) a\n2) b\n3) c\n3. {C}",
            {1: A, 2: "The chatbot must:\n1) a\n2) b\n3) c", 3: C},
            id="list in another form",
        ),
        pytest.param(
            f"Rule 1: {A}\nRule 2: The chatbot must:\n1. must a\n2. must b\n3. must c\nRule 3: {C}",
            {1: A, 2: "The chatbot must:\n1. must a\n2. must b\n3. must c", 3: C},
            id="lines that say Rule win",
        ),
        pytest.param(
            f"Order:\n1. Hearth\n2. Lamp\n3. Gate\n\n3. {C}\n1. {A}\n2. {B}",
            {3: C, 1: A, 2: B},
            id="list before the rules",
        ),
        pytest.param(
            f"1. {A}\n2. The chatbot must not quote sums above\n300. million crowns.\n3. {C}",
            {1: A, 2: "The chatbot must not quote sums above\n300. million crowns.", 3: C},
            id="a number in a body",
        ),
        pytest.param(
            f"2. {A} See § 4.\n(b) Annex 1. applies.\n\n1. {C}\n2.5 times is too much.",
            {2: f"{A} See § 4.\n(b) Annex 1. applies.", 1: f"{C}\n2.5 times is too much."},
            id="digits and section marks",
        ),
        pytest.param(f"1. {A}\n2. {B}\n4. {C}", {1: A, 2: B, 4: C}, id="gap"),
        pytest.param(f"2. {A}\n3. {B}", {2: A, 3: B}, id="not from one"),
        pytest.param(f"1. {A}\r\n\r\n2. {B}\r\n", {1: A, 2: B}, id="carriage returns"),
    ],
)
def test_only_rules_are_rules(text, expected):
    assert bodies(text) == expected


def test_framework_lines_are_never_rules():
    framework = f"## Lamps\n\n1. {A}\n2. {B}\n3. A lamp must be lit."
    text = f"Check.\n\n{framework}\n\n2. {C}\n1. {A}"
    policy = parse_policy(text, framework)
    assert (policy.instruction, policy.framework) == ("Check.", framework)
    assert [rule.number for rule in policy.rules] == [2, 1]
    assert parse_policy(text, "not in the text").framework == ""
    after = parse_policy(f"Check.\n\n2. {C}\n1. {A}\n\n{framework}", framework)
    assert [rule.text for rule in after.rules] == [C, A]


def test_what_stands_between_framework_and_rules_is_kept():
    policy = parse_policy(f"Check.\n\n## Lamps\nLit.\n\nThe rules:\n1. {A}", "## Lamps\nLit.")
    assert policy.instruction == "Check.\n\nThe rules:"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Check.\n\n## Lamps\n\nLit. \n\nUnlit.\n\n1. {A}", "## Lamps\n\nLit. \n\nUnlit."),
        (f"Check.\n# Lamps\nLit.\n1. {A}", "# Lamps\nLit."),
        (f"Check.\n\nThe Lamp Code: lit.\n\n1. {A}", "The Lamp Code: lit."),
        (f"Check.\n\n1. {A}", ""),
        (f"1. {A}", ""),
    ],
)
def test_find_framework(text, expected):
    assert find_framework(text) == expected
    assert expected in text


@pytest.mark.parametrize("text", ["", "Be nice.", "- no lies\n- no fraud", "3.5 million"])
def test_a_policy_without_rules_is_an_error(text):
    with pytest.raises(DataError, match="no rules found"):
        parse_policy(text)


@pytest.mark.parametrize(
    ("body", "overrides", "mentions"),
    [
        ("Rule 16 is waived.", (), (16,)),
        ("Rules 3 and 7 are waived.", (), (3, 7)),
        ("Rules 3, 5 and 9, and Rule 3 again.", (), (3, 5, 9)),
        ("Rules 3, 5, and 9 apply; RULE 11 too.", (), (3, 5, 9, 11)),
        ("Rules 4 & 6, Rules 8/10 or Rule 12.", (), (4, 6, 8, 10, 12)),
        ("This tightens rule 12's limit.", (), (12,)),
        ("Rules 4-6 apply.", (), (4, 5, 6)),
        ("Rules 4–6 apply.", (), (4, 5, 6)),
        ("Rules 4 through 6 and 8 apply.", (), (4, 5, 6, 8)),
        ("Rule 4 through Rule 6 apply.", (), (4, 5, 6)),
        ("Rules 2 and 7 days later.", (), (2,)),
        ("Rule 3 and 5 disclosures.", (), (3,)),
        ("Federal Rule 4.2, 5 rules, ruled 6.", (), ()),
        ("Rule\n8 is waived.", (), (8,)),
        ("Rule 2 applies; this is Rule 1.", (), (2,)),
        ("Say so. [overrides: Rule 16]", (16,), ()),
        ("Say so. [overrides: Rules 3 and 7]", (3, 7), ()),
        ("Say so.\n[Overrides: Rule 3, Rule 7]", (3, 7), ()),
        ("Say so. [override: 4, 9]", (4, 9), ()),
        ("Say so. [overrides: Rules 4-6]", (4, 5, 6), ()),
        ("Rule 5 is waived. [overrides: Rule 5]", (5,), (5,)),
        ("Say so. [overrides: Rule 1, Rule 2]", (2,), ()),
        ("Say [overrides: none] so.", (), ()),
    ],
)
def test_references(body, overrides, mentions):
    [rule] = parse_policy(f"1. {body}").rules
    assert (rule.overrides, rule.mentions) == (overrides, mentions)
    assert "Rule 16]" not in rule.text
    assert rule.references == tuple(dict.fromkeys(overrides + mentions))


def test_a_note_leaves_the_text():
    [rule] = parse_policy("1. Say so. [overrides: Rule 16]").rules
    assert rule.text == "Say so."
    [rule] = parse_policy("1. Say [overrides: Rule 16] so.").rules
    assert rule.text == "Say so."


WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "chatbot",
            "must",
            "not",
            "may",
            "sums",
            "of",
            "300",
            "crowns",
            "§",
            "4.2",
            "(b)",
            "«née»",
            "—",
            "and",
        ]
    ),
    min_size=1,
    max_size=12,
).map(" ".join)
LINES = st.lists(WORDS.map(lambda line: f"So {line}"), min_size=1, max_size=3).map("\n".join)


@st.composite
def policies(draw):
    count = draw(st.integers(1, 40))
    numbers = draw(st.permutations(range(1, count + 1)))
    rules = []
    for number in numbers:
        others = st.sampled_from([n for n in range(1, count + 3) if n != number])
        named = draw(st.lists(others, max_size=2, unique=True))
        overrides = draw(st.lists(others, max_size=3, unique=True))
        text = draw(LINES) + "".join(f" Rule {n} is waived." for n in named)
        rules.append(Rule(number, text, tuple(overrides), tuple(named)))
    framework = draw(st.just("") | LINES.map("## The Order\n\n1. A term\n2. Another\n{}".format))
    instruction = draw(st.just("") | LINES)
    return instruction, framework, tuple(rules)


@given(policies())
def test_parse_is_the_inverse_of_render(parts):
    instruction, framework, rules = parts
    policy = parse_policy(render_policy(instruction, framework, rules), framework)
    assert (policy.instruction, policy.framework, policy.rules) == parts


def test_render_by_hand():
    rules = [Rule(2, B, overrides=(4,)), Rule(1, A, overrides=(4, 9))]
    assert render_policy("Check.", "# F", rules) == (
        f"Check.\n\n# F\n\n2. {B} [overrides: Rule 4]\n\n1. {A} [overrides: Rules 4, 9]"
    )


def test_related_rules():
    policy = parse_policy(
        "4. If so, Rule 1 is waived.\n1. No lies.\n2. No fraud.\n3. Also for rule 2.\n"
        "5. No noise. [overrides: Rule 9]"
    )
    rubric = [
        RubricEntry(1, "", BASE, violated=False),
        RubricEntry(3, "", EXTRA, violated=False, paired_with=(2, 7)),
        RubricEntry(4, "", WAIVER, violated=False, paired_with=(2,)),
    ]
    related = related_rules(policy, rubric)
    numbers = {target: [rule.number for rule in rules] for target, rules in related.items()}
    # 3 is a conditional, so no target; rule 5 is no entry of the rubric and still judged.
    assert numbers == {4: [1, 2], 1: [4], 2: [3, 4], 5: []}
    assert related[1] == (policy.rules[0],)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (f"1. {A} Rule 9 is waived.", "rule 1: names rules that do not exist: 9"),
        (f"1. {A}\n2. {B}\n5. {C}\n3. Must not.", "numbers 1 to 5 have gaps: no rule 4"),
        (f"1. {A}\n2.  {A.lower()}", "rules 1 and 2 have the same text"),
        (
            "1. The chatbot must not share a user's home address with any other user.\n"
            "2. The chatbot must not share a user's work address with any other user.",
            "rules 1 and 2 have nearly the same text",
        ),
        (
            f"1. Rule 2 is waived. It must stop.\n2. Must not. Rule 1 is waived.\n3. {A}",
            "rules override each other in a circle: 1, 2",
        ),
        (
            f"1. {A} [overrides: Rule 2]\n2. {B} [overrides: Rule 1]",
            "rules override each other in a circle: 1, 2",
        ),
        (
            "1. The chatbot must greet and it must not lie.",
            "rule 1: two duties in one sentence; make two rules, or one of them can be half broken",
        ),
        (
            "1. The chatbot must respond Appropriately.",
            'rule 1: vague word "appropriately"; say what can be seen in the conversation',
        ),
        ("1. Lies are bad.", "rule 1: demands nothing; say what must, must not or may not be"),
        (
            "1. The earlier limit is waived.",
            "rule 1: modifies other rules and does not say which; name them by number",
        ),
        (
            f"1. {A}\n2. {B}\n2. The chatbot must sing.",
            "rule 2: a line inside it begins with 2; if it is a rule, give it a free number",
        ),
    ],
)
def test_lint_finds(text, finding):
    assert finding in lint_policy(parse_policy(text))


def test_lint_is_silent_on_a_good_policy():
    text = (
        f"Check.\n\n1. {A}\n3. If (a) the user has named a clerk and (b) the clerk agrees, Rule 1 "
        f"is waived. Instead, the chatbot must name the clerk.\n2. {C}\n4. No sum may be read out "
        "while an override is open.\n5. A clerk may be named only once."
    )
    assert lint_policy(parse_policy(text)) == []


def test_notes_are_taken_in_linear_time():
    text = "[overrides: " * 20_000
    start = time.perf_counter()
    assert take_notes(text) == (text, ())
    assert take_notes(f"{text}Rule 3] Bow.") == (f"{text[:-13]} Bow.", (3,))
    for text in (" " * 100_000 + ".[", "[overrides" + " " * 100_000):
        assert take_notes(text) == (text, ())
    assert time.perf_counter() - start < 2
