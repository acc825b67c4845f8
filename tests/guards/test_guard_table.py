import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hand_made import case_of, question_of

from safepyramid.answers.parse import answer_from_reply
from safepyramid.cli.main import main
from safepyramid.dataset.load import load_benchmark
from safepyramid.errors import GuardError
from safepyramid.guards import GUARDS, files_digest, load_guard
from safepyramid.guards.base import Guard, predicted_rules
from safepyramid.guards.page import (
    COLUMNS,
    guards_table,
    options_of,
    render_guards_page,
    with_reference,
)
from safepyramid.prompts.render import gaps, load_templates
from safepyramid.results.read import aggregate, write_judgments
from safepyramid.schema import PROTOCOLS, Judgment, Reply, RuleType, State, Verdict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guards.md").read_text(encoding="utf-8")
MY_GUARD = str(ROOT / "examples/my_guard.py")
FAMILIES = [name for name, entry in GUARDS.items() if entry.models]
WITH_MODEL = ["chat", *FAMILIES]
WITHOUT_MODEL = ["none", "all", "random", "lexical"]


# --- the table


@pytest.mark.parametrize("name", [*WITH_MODEL, *WITHOUT_MODEL])
def test_a_guard_supports_the_protocols_of_its_entry(name):
    guard = load_guard(name)
    assert guard.name == name
    assert tuple(p for p in PROTOCOLS if guard.supports(p)) == GUARDS[name].protocols


@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_a_baseline_answers_every_case_of_the_sample(name):
    _, cases = load_benchmark("sample")
    said = [set(predicted_rules(load_guard(name), case)) for case in cases]
    assert all(rules <= set(case.rule_types) for rules, case in zip(said, cases, strict=True))
    whole = [rules == set(case.rule_types) for rules, case in zip(said, cases, strict=True)]
    assert all(whole) if name == "all" else not any(whole)
    assert any(said) == (name != "none")


@pytest.mark.parametrize("name", [n for n in FAMILIES if GUARDS[n].protocols == ("per_rule",)])
def test_a_guard_of_one_rule_a_call_is_not_run_per_policy(name):
    guard = load_guard(name)
    assert guard.adapter("per_rule") is guard.per_rule
    with pytest.raises(
        GuardError, match=f"'{name}' does not support per_policy; it supports: per_rule"
    ):
        guard.adapter("per_policy")


@pytest.mark.parametrize("name", FAMILIES)
def test_an_entry_says_what_a_user_must_know(name):
    entry = GUARDS[name]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", model) for model in entry.models)
    assert entry.size
    assert entry.licence
    assert entry.source
    assert entry.layout
    assert entry.known


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_guard_carries_its_templates(name):
    assert load_guard(name).prompts == load_templates(name) != {}


def test_every_template_belongs_to_a_guard_of_the_table_or_to_the_wrapper():
    folder = ROOT / "src/safepyramid/prompts"
    used = {template for name in [*WITH_MODEL, "structured"] for template in load_templates(name)}
    assert {path.stem for path in folder.glob("*.md")} == used


def test_guards_without_a_model_say_so_in_the_table():
    assert {*WITHOUT_MODEL, "similarity"} == {n for n, e in GUARDS.items() if e.endpoint == "none"}
    for name in WITHOUT_MODEL:
        assert GUARDS[name].endpoint == "none"
        assert load_guard(name).predict is not None


def test_importing_the_table_imports_no_family_and_nothing_heavy():
    code = (
        "import sys, safepyramid.guards; "
        "print([m for m in sys.modules if m.startswith('safepyramid.') or m in "
        "('inspect_ai', 'numpy', 'pandas')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(out.stdout.replace("'", '"')))
    ours = {"safepyramid.errors", "safepyramid.schema", "safepyramid.guards"}
    ours |= {
        f"safepyramid.{name}" for name in ("policy", "policy.lint", "policy.parse", "policy.text")
    }
    assert loaded <= ours | {"safepyramid.guards.base", "safepyramid.guards.table"}


# --- options and templates


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dynaguard", {"mode": "slow"}, "mode='slow' is not allowed; give one of: reasoning, fast"),
        ("dynaguard", {"threshold": 1}, "has no option 'threshold'; allowed: mode"),
        ("shieldlm", {"controversial": True}, "give one of: unparsed, violated, not_violated"),
        (
            "flexguard",
            {"threshold": 101},
            "threshold=101 is not allowed; give a number from 0 to 100",
        ),
        ("flexguard", {"threshold": "40"}, "threshold='40' is not allowed"),
        ("flexguard", {"threshold": True}, "threshold=True is not allowed"),
        ("flexguard", {"threshold": float("nan")}, "threshold=nan is not allowed"),
        ("shieldgemma", {"threshold": 40}, "give a number from 0 to 1"),
        ("granite-guardian", {"think": "yes"}, "think='yes' is not allowed; give true or false"),
        ("llama-guard", {"version": 2}, "version=2 is not allowed; give one of: 3, 4"),
        ("llama-guard", {"version": "3"}, "version='3' is not allowed"),
        ("nemotron", {"variant": "4"}, "give one of: reasoning-4b, 3.5"),
        ("nemotron", {"think": 1}, "give true or false"),
        ("singguard", {"mode": "reasoning"}, "give one of: fast, slow"),
        ("gspr", {"mode": "fast"}, "has no option 'mode'; allowed: none"),
    ],
)
def test_a_wrong_option_is_one_line_with_what_is_allowed(name, options, message):
    with pytest.raises(GuardError, match=re.escape(message)) as raised:
        load_guard(name, options=options)
    assert "\n" not in str(raised.value)
    assert repr(name) in str(raised.value)


def test_a_number_from_the_command_line_names_the_variant():
    assert load_guard("nemotron", options={"variant": 3.5}).per_rule is not None


@pytest.mark.parametrize("name", WITH_MODEL)
def test_each_template_can_be_replaced(name, tmp_path):
    for template, text in load_templates(name).items():
        shown = " ".join(f"{{{{ {gap} }}}}" for gap in sorted(gaps(text)))
        (tmp_path / f"{template}.md").write_text(f"OTHER WORDS {shown}", encoding="utf-8")
    guard = load_guard(name, tmp_path)
    assert all(text.startswith("OTHER WORDS") for text in guard.prompts.values())
    prompt = guard.per_rule.render(question_of(case_of()))
    told = json.dumps([m.text for m in prompt.messages] + list(prompt.template_args.values()))
    assert "OTHER WORDS" in told
    assert "violat" not in told.replace("violated_rules", "")  # nothing of ours is left


def test_an_unknown_guard_names_the_allowed_ones():
    with pytest.raises(
        GuardError, match=r"unknown guard 'gard'; allowed: chat, .*path/to/guard.py"
    ):
        load_guard("gard")


# --- guards of one's own


def test_the_examples_guard_asks_and_reads():
    guard = load_guard(f"{MY_GUARD}:MyGuard")
    case = case_of()
    prompt = guard.per_policy.render(case)
    assert [m.role for m in prompt.messages] == ["system", "user"]
    assert prompt.messages[0].text == case.policy
    assert case.conversation in prompt.messages[1].text
    reply = Reply('{"violated_rules": [3]}')
    answer = guard.per_policy.parse(reply, case)
    assert answer == answer_from_reply(reply, case.rule_types)
    assert answer.violated == {3}


def test_the_examples_function_is_a_guard_for_both_protocols():
    guard = load_guard(f"{MY_GUARD}:quoted_words")
    assert guard.name == "quoted_words"
    assert all(guard.supports(protocol) for protocol in PROTOCOLS)
    case = case_of(("Hello?", "I am a neighbour, and in no hurry."))
    # the longest words are "neighbour,", "chatbot" and "requires"
    assert guard.predict(case) == [2]


FILES = {
    "class": "class Mine:\n    def __init__(self, n=1):\n        self.n = n\n    def __call__(self, case):\n        return [self.n]\n",
    "maker": "from safepyramid.guards.base import Guard\ndef Mine(n=1):\n    return Guard('mine', predict=lambda case: [n])\n",
    "templated": "from safepyramid.guards.base import Guard\ndef Mine(prompts=None, n=1):\n    return Guard('mine', predict=lambda case: [n], prompts={'p': str(prompts)})\n",
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("options", [{}, {"n": 3}])
def test_a_file_may_hold_a_class_or_a_function_that_makes_a_guard(kind, options, tmp_path):
    (tmp_path / "g.py").write_text(FILES[kind], encoding="utf-8")
    guard = load_guard(f"{tmp_path}/g.py:Mine", options=options)
    assert isinstance(guard, Guard)
    assert list(guard.predict(case_of())) == [options.get("n", 1)]


@pytest.mark.parametrize(
    ("text", "prompts", "options", "message"),
    [
        (FILES["class"], None, {"m": 1}, "has no option 'm'; allowed: n"),
        (FILES["class"], ".", {}, "has no templates; leave --prompts out"),
        ("def Mine(case):\n    return []\n", None, {"n": 1}, "has no option 'n'; allowed: none"),
        ("def Mine(case):\n    return []\n", ".", {}, "has no templates"),
        ("def Mine():\n    return 3\n", None, {}, "made a int, not a Guard"),
        ("Mine = 3\n", None, {}, "has no guard 'Mine'; give file.py:NAME of one"),
        ("Yours = 3\n", None, {}, "has no guard 'Mine'"),
        ("import nothing_of_this_name\n", None, {}, "cannot be loaded: No module named"),
        ("def Mine(:\n", None, {}, "cannot be loaded: invalid syntax"),
        ("1 / 0\n", None, {}, "cannot be loaded: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", None, {}, "cannot be loaded: SystemExit: 3"),
        ("raise ValueError('a\\nb')\n", None, {}, "cannot be loaded: ValueError: a b"),
        (
            "def Mine(a, b):\n    return []\n",
            None,
            {},
            "cannot be made: TypeError: Mine() missing 2",
        ),
        ("def Mine():\n    raise KeyError('x')\n", None, {}, "cannot be made: KeyError: 'x'"),
    ],
)
def test_a_file_that_holds_no_guard_is_one_line(text, prompts, options, message, tmp_path):
    (tmp_path / "g.py").write_text(text, encoding="utf-8")
    with pytest.raises(GuardError, match=re.escape(message)) as raised:
        load_guard(f"{tmp_path}/g.py:Mine", prompts, options)
    assert "\n" not in str(raised.value)


def test_a_change_of_any_file_that_a_guard_is_made_from_is_seen(tmp_path):
    own, words, prompts = tmp_path / "own.py", tmp_path / "words.txt", tmp_path / "prompts"
    prompts.mkdir()
    files = [own, words, prompts / "a.md"]
    for file in files:
        file.write_text("x", encoding="utf-8")

    def digest():
        return files_digest(f"{own}:Guard", prompts, {"words": str(words), "n": 3})

    seen = {digest()}
    for file in files:
        assert digest() in seen
        file.write_text("y", encoding="utf-8")
        assert digest() not in seen
        seen.add(digest())
    assert files_digest("chat", None, {"words": "no such file"}) is None
    assert files_digest("chat", None, {"words": str(words)}) is not None


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(GuardError, match=r"no guard file 'nowhere/g\.py'"):
        load_guard("nowhere/g.py:Mine")


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "returned None; return the numbers of the violated rules as integers"),
        (3, "returned a int;"),
        ("3", "returned a str;"),
        ({3: False}, "returned a dict;"),
        ([3, "4"], "a collection with '4';"),
        ([True], "a collection with True;"),
        ([3.0], "a collection with 3.0;"),
    ],
)
def test_what_a_guard_function_must_return_is_told(returned, told):
    with pytest.raises(GuardError, match=re.escape(told)) as raised:
        predicted_rules(Guard("mine", predict=lambda case: returned), case_of())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("returned", [[3, 1, 3], (1, 3), {1, 3}, frozenset({3, 1}), range(1, 4, 2)])
def test_any_collection_of_integers_is_a_prediction(returned):
    guard = Guard("mine", predict=lambda case: returned)
    assert predicted_rules(guard, case_of()) == [1, 3]
    assert predicted_rules(Guard("mine", predict=lambda case: []), case_of()) == []


def test_names_are_whole_in_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(main, ["guards"])
    assert done.exit_code == 0
    firsts = [line.split(" ")[0] for line in done.output.split("\n")]
    assert [first for first in firsts if first] == ["guard", *GUARDS]
    assert "…" not in done.output


# --- the page


def test_the_reference_on_the_page_is_the_tables():
    assert with_reference(PAGE) == PAGE, "run: python -m safepyramid.guards.page docs/guards.md"


def test_the_page_shows_the_example_as_it_is():
    example = Path(MY_GUARD).read_text(encoding="utf-8").strip("\n")
    assert f"```python\n{example}\n```" in PAGE
    assert len(example.split("\n")) < 40


def test_the_page_names_a_file_for_the_makers_text_of_each_family():
    rows = PAGE.partition("## The makers' exact prompts")[2].partition("\n## ")[0]
    named = {
        row.split("`")[1]: set(re.findall(r"`([\w-]+)\.md`", row))
        for row in rows.split("\n")
        if row.startswith("| `")
    }
    assert set(named) == set(FAMILIES) - {"gpt-oss-safeguard"}
    for name, files in named.items():
        assert files <= set(load_templates(name))


def test_a_page_without_marks_is_refused():
    with pytest.raises(GuardError, match="put both lines where it should go"):
        with_reference("# Guards\n")


def test_the_rows_hold_each_guard_and_each_options_default():
    rows = {row[0]: row for row in guards_table()}
    assert list(rows) == list(GUARDS)
    assert all(len(row) == len(COLUMNS) for row in rows.values())
    assert rows["flexguard"][3] == "threshold=40"
    assert rows["nemotron"][3] == "variant=reasoning-4b, think=false"


def test_every_option_is_explained():
    for name, entry in GUARDS.items():
        for option, _, told in options_of(entry):
            assert told, f"{name}: {option}"
            assert f"Option `{option}`" in render_guards_page()


# --- the threshold sweep


@pytest.fixture
def sweep_threshold(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("sweep_threshold")


def test_the_sweep_moves_the_threshold_over_kept_scores(sweep_threshold, tmp_path, capsys):
    _, cases = load_benchmark("sample", level="L0", limit=2)
    # Rules that are violated score 0.65, the others 0.35: between them the sets are exact.
    predictions = [
        aggregate(
            case,
            [
                Judgment(
                    entry.rule,
                    Verdict(State.ANSWERED, False, score=0.65 if entry.violated else 0.35),
                )
                for entry in case.rubric
                if entry.type is not RuleType.CONDITIONAL
            ],
        )
        for case in cases
    ]
    path = tmp_path / "judgments.jsonl"
    write_judgments(path, predictions, model="flexguard")
    sweep_threshold.main("sample", str(path))
    head, *rows = capsys.readouterr().out.strip("\n").split("\n")
    assert head.split() == ["threshold", "RMR", "RDR"]
    found = {float(row.split()[0]): row.split()[1:] for row in rows}
    for threshold, (rmr, rdr) in found.items():
        exact = 0.35 <= threshold < 0.65
        assert (rmr == "1.000") is exact
        assert (rdr == "0.000") is exact
    # above every score nothing is violated: all of the truth is missed
    assert found[0.7] == ["0.000", "1.000"]


def test_the_sweep_leaves_judgments_without_a_score_alone(sweep_threshold):
    refused = Judgment(3, Verdict(State.REFUSED))
    assert sweep_threshold.judged_at(refused, 0.1) is refused
    scored = Judgment(3, Verdict(State.ANSWERED, False, score=0.4))
    assert sweep_threshold.judged_at(scored, 0.4) == scored
    raised = sweep_threshold.judged_at(scored, 0.39)
    assert raised == replace(scored, verdict=replace(scored.verdict, violated=True))
