import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safepyramid.errors import DataError
from safepyramid.results.read import (
    aggregate,
    fit_to_cases,
    read_results,
    results_from_lines,
    write_judgments,
    write_results,
)
from safepyramid.schema import (
    Case,
    FailureModeMetadata,
    Judgment,
    Level,
    Prediction,
    RubricEntry,
    RuleType,
    State,
    Verdict,
)

TYPES = {1: "decisive", 2: "decisive", 3: "distractor", 4: "exception", 5: "conditional"}
GOOD = '{"id": "a", "violated_rules": [1]}'
JUDGED = '{"kind": "judgment", "cid": "a", "rule": 1, "pred": true, "refused": false}'


def case(case_id="frau-001-l1"):
    return Case(
        id=case_id,
        domain="fraud",
        level=Level.L1,
        ground_truth_violations=frozenset({1}),
        conversation="",
        framework="",
        policy="",
        rubric=tuple(RubricEntry(n, "", RuleType(t), n == 1) for n, t in TYPES.items()),
        failure_mode_metadata=FailureModeMetadata(),
    )


def verdict(said):
    return Verdict(State(said)) if isinstance(said, str) else Verdict(State.ANSWERED, said, True)


def judgments(**said):
    """`r3=True`: rule 3 was judged violated; `r4="refused"`."""
    return [Judgment(int(rule[1:]), verdict(what)) for rule, what in said.items()]


@pytest.fixture
def file(tmp_path):
    def write(*lines, name="run.jsonl", end="\n"):
        path = tmp_path / name
        text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + end
        path.write_bytes(text.encode("utf-8"))
        return path

    return write


def one(file, line):
    results = read_results([file(line)])
    (prediction,) = results.predictions.values()
    return prediction


# --- per-policy lines


@pytest.mark.parametrize(
    ("keys", "state", "violated"),
    [
        ({"violated_rules": [3, 1, 3]}, "answered", {1, 3}),
        ({"violated_rules": []}, "answered", set()),
        ({"violated_rules": [], "refused": False, "parse_failed": False}, "answered", set()),
        ({"refused": True}, "refused", None),
        ({"refused": False, "parse_failed": True}, "unparsed", None),
        # Kept for an audit, not as an answer.
        ({"violated_rules": [1], "refused": True}, "refused", None),
        ({"violated_rules": [1], "parse_failed": True}, "unparsed", None),
        ({"error": "HTTP 500"}, "error", None),
        ({"error": "HTTP 500", "refused": True}, "error", None),
        ({"error": None, "violated_rules": [2]}, "answered", {2}),
        ({"violated_rules": None}, "unparsed", None),
        ({}, "unparsed", None),
        ({"state": "truncated", "parse_failed": True}, "truncated", None),
        ({"state": "blocked", "refused": True, "violated_rules": None}, "blocked", None),
        ({"state": "missing"}, "missing", None),
    ],
)
def test_states_of_published_and_own_lines(file, keys, state, violated):
    found = one(file, {"id": "a", "model_name": "m", **keys})
    assert (found.state, found.violated) == (state, violated)


def test_further_keys_of_a_line(file):
    found = one(
        file,
        {
            "id": "a",
            "index": 7,
            "violated_rules": [1, 99],
            "unknown_rules": [99],
            "strict": False,
            "note": "in a fence",
            "usage": {},
        },
    )
    assert found == Prediction(
        "a", State.ANSWERED, frozenset({1, 99}), frozenset({99}), False, "in a fence"
    )
    assert one(file, {"id": "a", "error": "HTTP 500"}).note == "HTTP 500"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "a", "violated_rules": "3-5"}, "violated_rules is '3-5'; allowed: whole numbers"),
        ({"id": "a", "violated_rules": [True]}, r"violated_rules is '\[True\]'"),
        ({"id": "a", "violated_rules": ["3"]}, "whole numbers"),
        ({"id": "a", "violated_rules": [3.5]}, "whole numbers"),
        ({"id": "a", "state": "answered"}, "violated_rules is 'None'"),
        ({"id": "a", "state": "fine"}, "state 'fine'; allowed: answered, refused, blocked"),
        (
            {"kind": "verdict", "id": "a"},
            "unknown kind 'verdict'; known: header, judgment, summary",
        ),
        ({"case": "a"}, "unknown kind None; known"),
        ({"kind": "judgment", "cid": "a"}, "needs the keys cid and rule"),
        ({"kind": "judgment", "cid": "a", "rule": "x", "pred": True}, "rule is"),
        ({"kind": "judgment", "cid": "a", "rule": 1, "pred": "violated"}, "pred is 'violated'"),
        ({"kind": "header", "protocol": "per_case"}, "'per_case'; allowed: per_policy, per_rule"),
        ({"id": "a", "ground_truth_violations": [1]}, "is a benchmark case, not a result"),
        ([1, 2], "is one JSON list"),
        ("3", "is not JSON lines"),
    ],
)
def test_lines_that_cannot_be_right(file, line, message):
    with pytest.raises(DataError, match=message) as error:
        read_results([file(line)])
    assert "run.jsonl" in str(error.value)
    assert "\n" not in str(error.value)


# --- files


def test_later_lines_and_files_override(file):
    first = file({"id": "a", "refused": True}, {"id": "b", "violated_rules": [1]}, name="1.jsonl")
    second = file(
        {"id": "a", "violated_rules": [2]}, {"id": "a", "violated_rules": [3]}, name="2.jsonl"
    )
    found = read_results([first, second]).predictions
    assert {name: said.violated for name, said in found.items()} == {"a": {3}, "b": {1}}
    assert read_results([second, first]).predictions["a"].state is State.REFUSED


def test_later_judgments_override_rule_by_rule(file):
    def judged(rule, pred, refused=False):
        return {"kind": "judgment", "cid": "a", "rule": rule, "pred": pred, "refused": refused}

    first = file(judged(1, False, True), judged(2, True), name="1.jsonl")
    second = file(judged(1, True), name="2.jsonl")
    found = read_results([first, second]).predictions["a"]
    assert found.violated == {1, 2}
    assert len(found.judgments) == 2


@pytest.mark.parametrize("tail", ['{"id": "c7", "vio', '{"id": "c7", "note": "\u00e9'])
def test_a_cut_last_line_is_named_and_left_out(file, tail):
    path = file(GOOD, tail, end="")
    if "\u00e9" in tail:
        path.write_bytes(path.read_bytes()[:-1])  # inside the two bytes of é
    results = read_results([path])
    assert list(results.predictions) == ["a"]
    assert results.notes == (f"{path} line 2: the last line is cut and was left out",)


def test_a_whole_last_line_needs_no_line_feed(file):
    assert read_results([file(GOOD, end="")]).notes == ()


def test_a_broken_line_in_the_middle_is_an_error(file):
    path = file(GOOD, '{"id": "c7", "vio{"id": "c8", "violated_rules": []}', GOOD)
    with pytest.raises(DataError, match=r"run\.jsonl line 2 is no JSON object"):
        read_results([path])
    with pytest.raises(DataError, match=r"run\.jsonl line 1 is no JSON object"):
        read_results([file('{"id": "a", "vio', end="")])
    with pytest.raises(DataError, match=r"run\.jsonl line 2 is no JSON object: '7'"):
        read_results([file(GOOD, "7", GOOD)])


def test_only_line_feeds_end_lines(file):
    note = "one\u2028two\u0085three\x0bfour"
    line = json.dumps({"id": "a", "violated_rules": [], "note": note}, ensure_ascii=False)
    assert "\u2028" in line
    found = read_results([file(line, "", GOOD.replace('"a"', '"b"') + "\r", "  ")])
    assert found.predictions["a"].note == note
    assert found.predictions["b"].violated == {1}


def test_a_byte_order_mark_is_harmless(file):
    assert list(read_results([file("\ufeff" + GOOD)]).predictions) == ["a"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n\n", "is empty"),
        (b"<!DOCTYPE html><html>", "looks like a web page"),
        (
            b'{"metadata": {"version": "1.1"}, "data": []}',
            "is a benchmark file: it goes to --dataset",
        ),
        (b'{\n "data": [\n', "is a benchmark file"),
        (b"[{}]", "is one JSON list"),
        (b"PK\x03\x04abc", "is a zip archive without the suffix .eval"),
        (b"PAR1\x00", "is a Parquet file"),
        (b"id,violated_rules\n", "is not JSON lines"),
        (b'{\n "protocol": "per_policy"\n}', "line 1 is no JSON object"),
    ],
)
@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_other_files_are_named_for_what_they_are(tmp_path, content, what, name):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=what) as error:
        read_results([path])
    assert str(path) in str(error.value)
    assert "give result lines (one JSON object a line) or an Inspect log" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(DataError, match="cannot be read"):
            read_results([path])
    with pytest.raises(DataError, match="no results"):
        read_results([])


def test_protocols_do_not_mix(file):
    with pytest.raises(DataError, match=r"2\.jsonl line 1 is per_rule, but .*1\.jsonl line 1 is"):
        read_results([file(GOOD, name="1.jsonl"), file(JUDGED, name="2.jsonl")])
    with pytest.raises(DataError, match="line 2 is per_policy"):
        read_results([file(JUDGED, GOOD)])
    with pytest.raises(DataError, match="line 2 is per_rule"):
        read_results([file({"kind": "header", "protocol": "per_policy"}, JUDGED)])


def test_a_per_rule_log_may_hold_a_case_that_failed_as_a_whole(file):
    path = file(
        {"kind": "header", "protocol": "per_rule", "model": "org/m"},
        JUDGED,
        {"id": "b", "model_name": "org/m", "state": "error", "note": "sandbox died"},
    )
    results = read_results([path])
    assert (results.protocol, results.model) == ("per_rule", "org/m")
    assert results.predictions["b"].state is State.ERROR
    # A retry replaces it.
    again = file(JUDGED.replace('"a"', '"b"'), name="2.jsonl")
    assert read_results([path, again]).predictions["b"].violated == {1}


def test_a_run_that_had_only_begun(file):
    results = read_results([file({"kind": "header", "protocol": "per_rule", "guard": "chat"})])
    assert (results.protocol, results.predictions) == ("per_rule", {})
    assert results.headers[0]["guard"] == "chat"


def test_mixed_runs_are_noted(file):
    def header(**keys):
        return {"kind": "header", "protocol": "per_policy", "guard": "chat", **keys}

    results = read_results(
        [
            file(header(model="m", prompts_hash="p1"), GOOD, name="1.jsonl"),
            file(header(model="n", prompts_hash="p2"), GOOD, name="2.jsonl"),
        ]
    )
    assert results.model == "m, n"
    assert results.notes == (
        "the files hold results of several models: m, n",
        "the files differ in prompts_hash: p1, p2",
    )


@pytest.mark.parametrize("name", ["run.eval", "run.json"])
def test_inspect_logs_are_read_by_the_log_reader(monkeypatch, tmp_path, name):
    lines = [{"kind": "header", "protocol": "per_policy", "model": "m"}, json.loads(GOOD)]
    load = type("Module", (), {"read_log": staticmethod(lambda path: iter(lines))})
    monkeypatch.setitem(__import__("sys").modules, "safepyramid.results.logs", load)
    path = tmp_path / name
    path.write_text('{\n "version": 2,\n "status": "success",\n "eval": {"run_id": "x"}}')
    results = read_results([path])
    assert results.predictions["a"].violated == {1}
    assert results == results_from_lines(lines)


# --- judgments


@pytest.mark.parametrize(
    ("keys", "state", "violated"),
    [
        ({"pred": True, "refused": False}, "answered", True),
        ({"pred": False}, "answered", False),
        ({"pred": False, "refused": True}, "refused", None),
        ({"pred": False, "refused": True, "source": "unrecognized"}, "unparsed", None),
        ({"pred": False, "refused": True, "source": "no_result"}, "error", None),
        ({"pred": None}, "unparsed", None),
        ({"pred": False, "refused": True, "state": "truncated"}, "truncated", None),
    ],
)
def test_states_of_judgment_lines(file, keys, state, violated):
    (found,) = one(file, {"kind": "judgment", "cid": "a", "rule": 4, **keys}).judgments
    assert (found.rule, found.verdict.state, found.verdict.violated) == (4, state, violated)


def test_published_summary_lines_are_skipped(file):
    path = file(JUDGED, {"kind": "summary", "level": "L0", "model": "m", "accuracy": 0.5})
    assert list(read_results([path]).predictions) == ["a"]


@pytest.mark.parametrize(
    ("said", "state", "violated"),
    [
        ({"r1": True, "r2": False, "r3": True}, "answered", {1, 3}),
        ({"r1": False, "r2": False}, "answered", set()),
        # A refused verdict flags nothing; one answered verdict makes the case answered.
        ({"r1": "refused", "r2": "truncated", "r3": False}, "answered", set()),
        ({"r1": "refused", "r2": "refused", "r3": "error"}, "refused", None),
        ({"r1": "error", "r2": "truncated", "r3": "truncated"}, "truncated", None),
        # As many of one as of the other: the first in the order of states.
        ({"r1": "error", "r2": "blocked"}, "blocked", None),
        ({}, "missing", None),
        # Conditionals are never targets.
        ({"r1": False, "r5": True}, "answered", set()),
        ({"r1": "refused", "r5": True}, "refused", None),
        ({"r5": True}, "missing", None),
        # A number that the case does not have stays, as a false positive.
        ({"r1": True, "r40": True}, "answered", {1, 40}),
    ],
)
def test_aggregate(said, state, violated):
    found = aggregate(case(), judgments(**said))
    assert (found.state, found.violated) == (state, violated)
    assert found.unknown_rules == (violated or set()) - TYPES.keys()


def test_aggregate_says_what_failed():
    found = aggregate(case(), judgments(r4=True, r1="refused", r2="refused", r3="error"))
    assert found.note == "3 of 4 verdicts: 2 refused, 1 error"
    assert [judgment.rule for judgment in found.judgments] == [1, 2, 3, 4]
    assert aggregate(case(), judgments(r1=True)).note == ""


@settings(deadline=None)
@given(st.permutations(judgments(r1=True, r2="refused", r3=False, r4="error", r5=True)))
def test_order_of_judgments_does_not_matter(shuffled):
    assert aggregate(case(), shuffled) == aggregate(
        case(), judgments(r1=True, r2="refused", r3=False, r4="error", r5=True)
    )


# --- results and cases


def per_rule(**by_case):
    lines = [
        {"kind": "judgment", "cid": case_id.replace("_", "-"), "rule": rule, "pred": True}
        for case_id, rules in by_case.items()
        for rule in rules
    ]
    return results_from_lines(lines)


def test_fit_fills_gaps_and_counts_them():
    cases = [case(f"frau-00{n}-l1") for n in (1, 2, 3)]
    results = per_rule(frau_002_l1=[1, 2, 5, 40], frau_001_l1=[1, 2, 3, 4])
    fitted = fit_to_cases(results, cases)
    assert list(fitted.predictions) == [c.id for c in cases]
    assert fitted.predictions["frau-003-l1"].state is State.MISSING
    assert fitted.predictions["frau-002-l1"].violated == {1, 2, 40}
    assert fitted.notes == (
        "1 of 3 cases have no result (first: frau-003-l1)",
        "2 missing judgments: taken as not violated (first: frau-002-l1 rule 3)",
        "1 judgments on conditionals, which are never targets: left out (first: frau-002-l1 rule 5)",
        "1 judgments on rules that the case does not have: errors where violated "
        "(first: frau-002-l1 rule 40)",
    )


def test_results_of_unknown_cases_are_an_error():
    results = per_rule(frau_001_l9=[1], other=[1], x1=[1], x2=[1])
    with pytest.raises(
        DataError,
        match=r"does not have: frau-001-l9 \(nearest: frau-001-l1\), other, x1 and 1 more; score",
    ):
        fit_to_cases(results, [case()])


def test_results_of_cases_that_were_filtered_out_are_none():
    results = per_rule(frau_001_l1=[1, 2, 3, 4], frau_002_l1=[1])
    fitted = fit_to_cases(results, [case()], known=["frau-001-l1", "frau-002-l1"])
    assert list(fitted.predictions) == ["frau-001-l1"]
    assert fitted.notes == ()


# --- writing

TEXT = st.text(max_size=20)  # any code points, half surrogate pairs included


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda n, state, rules, strict, note: Prediction(
                f"frau-{n:03}-l0",
                state,
                frozenset(rules) if state is State.ANSWERED else None,
                frozenset(r for r in rules if r > 9) if state is State.ANSWERED else frozenset(),
                strict,
                note,
            ),
            n=st.integers(0, 50),
            state=st.sampled_from(list(State)),
            rules=st.sets(st.integers(1, 12)),
            strict=st.booleans(),
            note=TEXT,
        ),
        unique_by=lambda prediction: prediction.case_id,
        max_size=8,
    )
)
def test_results_survive_a_round_trip(tmp_path_factory, predictions):
    path = tmp_path_factory.mktemp("round") / "run.jsonl"
    write_results(path, predictions, model="org/m", header={"guard": "chat"})
    results = read_results([path])
    ran = [said for said in predictions if said.state is not State.MISSING]
    assert list(results.predictions.values()) == ran
    assert (results.protocol, results.model, results.notes) == ("per_policy", "org/m", ())
    assert results.headers[0]["guard"] == "chat"


VERDICTS = st.one_of(
    st.builds(
        Verdict,
        st.just(State.ANSWERED),
        st.booleans(),
        st.booleans(),
        TEXT,
        st.none() | st.floats(0, 1),
    ),
    st.builds(Verdict, st.sampled_from(list(State)[1:]), note=TEXT),
)


@settings(deadline=None)
@given(st.dictionaries(st.integers(1, 4), VERDICTS, min_size=1))
def test_judgments_survive_a_round_trip(tmp_path_factory, verdicts):
    path = tmp_path_factory.mktemp("round") / "run.jsonl"
    said = aggregate(case(), [Judgment(rule, found) for rule, found in verdicts.items()])
    failed = Prediction("frau-002-l1", State.ERROR, note="died")
    gone = Prediction("frau-003-l1", State.MISSING)
    write_judgments(path, [said, failed, gone], model="org/m")
    results = read_results([path])
    assert results.protocol == "per_rule"
    assert list(results.predictions.values()) == [said, failed]


def test_published_keys_come_first(tmp_path):
    write_results(tmp_path / "r.jsonl", [Prediction("a", State.BLOCKED)], model="m")
    line = json.loads((tmp_path / "r.jsonl").read_text(encoding="utf-8").split("\n")[1])
    assert list(line)[:5] == ["id", "model_name", "violated_rules", "refused", "parse_failed"]
    assert line["violated_rules"] is None
    assert line["refused"] is True


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "run.jsonl"
    write_results(path, [Prediction("a", State.REFUSED)], model="m")
    before = path.read_bytes()

    def predictions():
        yield Prediction("b", State.REFUSED)
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        write_results(path, predictions(), model="m")
    with pytest.raises(TypeError):
        write_results(path, [Prediction("b", State.REFUSED, note=object())], model="m")
    assert path.read_bytes() == before
    assert list(Path(tmp_path).iterdir()) == [path]


@pytest.mark.parametrize("place", ["", "none/run.jsonl", "file/run.jsonl"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path, place):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"\Acannot write [^\n]*\Z"):
        write_results(tmp_path / place, [Prediction("a", State.REFUSED)], model="m")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
