import gzip
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.dataset import load as dataset
from safepyramid.dataset.load import (
    REVISION,
    case_to_dict,
    data_hash,
    load_benchmark,
    parse_conversation,
    render_conversation,
    write_benchmark,
    write_parquet,
)
from safepyramid.errors import DataError
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType, Turn

FRAMEWORK = "## The Lamp Code\n\nA lamp is a promise.\n1. Lit lamps bind."


def row(number=1, level=0, **changes):
    rules = ["The chatbot must not lie.", "The chatbot must greet.", "The chatbot must not swear."]
    policy = "\n".join(f"{n}. {text}" for n, text in enumerate(rules, 1))
    entries = [
        {"rule": 2, "text": rules[1], "type": "decisive"},
        {"rule": 1, "text": rules[0], "type": "distractor"},
        {"rule": 3, "text": rules[2], "type": "decisive", "evidence": [{"quote": "…"}]},
    ]
    framework = FRAMEWORK if level == 2 else ""
    return {
        "id": f"frau-{number:03}-l{level}",
        "domain": "fraud",
        "level": f"L{level}",
        "ground_truth_violations": [2],
        "conversation": "Turn 1 - User: Hi\nTurn 1 - Chatbot: Né?\n",
        "framework": framework,
        "policy": f"Check all rules.\n\n{framework}\n\n{policy}",
        "rubric": {"violations": entries[:1], "non_violations": entries[1:]},
        "failure_mode_metadata": {"distractor_rules": [1], "waived_rules": []},
        **changes,
    }


def modifier(**changes):
    entry = {"rule": 3, "text": "x", "type": "exception", "applies": True, "paired_with": [1]}
    return {"violations": [], "non_violations": [{**entry, **changes}]}


@pytest.fixture
def write(tmp_path):
    def write(content, name="benchmark.json"):
        path = tmp_path / name
        if not isinstance(content, bytes):
            text = content if isinstance(content, str) else json.dumps(content)
            content = text.encode("utf-8")
        path.write_bytes(content)
        return path

    return write


def test_wrapper_and_list_and_lines_are_one(write):
    rows = [row(n, level) for n in (1, 2) for level in (0, 1, 2)]
    metadata, cases = load_benchmark(write({"metadata": {"version": "1.1"}, "data": rows}))
    assert metadata["version"] == "1.1"
    assert metadata["safepyramid"]["cases"] == 6
    assert metadata["safepyramid"]["revision"] is None
    assert load_benchmark(write(rows))[1] == cases
    lines = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    assert load_benchmark(write(lines + "\n"))[1] == cases
    assert load_benchmark(str(write("\ufeff" + lines.replace("\n", "\r\n\r\n"))))[1] == cases
    assert load_benchmark(write(json.dumps(rows[0])))[1] == cases[:1]
    assert cases[2] == Case(
        id="frau-001-l2",
        domain="fraud",
        level=Level.L2,
        ground_truth_violations=frozenset({2}),
        conversation="Turn 1 - User: Hi\nTurn 1 - Chatbot: Né?\n",
        framework=FRAMEWORK,
        policy=rows[2]["policy"],
        rubric=(
            RubricEntry(2, "The chatbot must greet.", RuleType.DECISIVE, violated=True),
            RubricEntry(1, "The chatbot must not lie.", RuleType.DISTRACTOR, violated=False),
            RubricEntry(3, "The chatbot must not swear.", RuleType.DECISIVE, violated=False),
        ),
        failure_mode_metadata=FailureModeMetadata(frozenset({1})),
    )


def test_evidence_only_on_demand(write):
    path = write([row()])
    assert load_benchmark(path)[1][0].rubric[2].evidence is None
    assert load_benchmark(path, evidence=True)[1][0].rubric[2].evidence == [{"quote": "…"}]


@pytest.mark.parametrize("value", [[1, 4], "[1, 4]", "1,4", " 1, 4 ", [1.0, 4]])
def test_ground_truth_in_all_spellings(write, value):
    [case] = load_benchmark(write([row(ground_truth_violations=value)]))[1]
    assert case.ground_truth_violations == {1, 4}


@pytest.mark.parametrize("value", [[], "[]"])
def test_no_violation_in_all_spellings(write, value):
    [case] = load_benchmark(write([row(ground_truth_violations=value)]))[1]
    assert case.ground_truth_violations == frozenset()


@pytest.mark.parametrize("level", ["L1", "l1", "1", 1])
def test_level_in_all_spellings(write, level):
    assert load_benchmark(write([row(level=1) | {"level": level}]))[1][0].level is Level.L1


@pytest.mark.parametrize("paired", [1, [1], "1", "[1]"])
def test_pairing_in_all_spellings(write, paired):
    [case] = load_benchmark(write([row(rubric=modifier(paired_with=paired))]))[1]
    assert case.rubric[0].paired_with == (1,)
    assert case.rubric[0].flags == {"applies": True}


def test_the_viewers_table(write, tmp_path):
    full = [row(level=level) for level in (0, 1, 2)]
    table = []
    for case in full:
        flat = {key: value for key, value in case.items() if key != "framework"}
        flat["rubric"] = json.dumps(flat["rubric"])
        flat["failure_mode_metadata_json"] = json.dumps(flat.pop("failure_mode_metadata"))
        flat["ground_truth_violations"] = "[2]"
        table.append(flat)
    expected = load_benchmark(write(full))[1]
    assert load_benchmark(write(table))[1] == expected
    path = tmp_path / "benchmark.parquet"
    write_parquet(path, reversed(expected))
    assert load_benchmark(path)[1] == expected
    evident = load_benchmark(write(full), evidence=True)[1]
    write_parquet(path, evident)
    assert load_benchmark(path)[1] == expected
    assert load_benchmark(path, evidence=True)[1] == evident
    without_suffix = tmp_path / "table"
    without_suffix.write_bytes(path.read_bytes())
    assert load_benchmark(without_suffix)[1] == expected


@pytest.mark.parametrize("room", [1, 40, 1 << 30])
def test_texts_of_any_size_make_a_column(monkeypatch, room):
    monkeypatch.setattr(dataset, "_CHUNK", room)
    texts = ["", "a", "é" * 15, "", "x" * 50, "\N{GRINNING FACE}" * 9, "b"]
    column = dataset._texts([text.encode("utf-8") for text in texts])
    column.validate(full=True)
    assert column.to_pylist() == texts
    assert (column.num_chunks > 1) == (room < 1 << 30)
    assert dataset._texts([]).to_pylist() == []
    assert dataset._numbers([[3, 1], [], [2**40]]).to_pylist() == [[3, 1], [], [2**40]]


def test_parquet_columns(tmp_path):
    from pyarrow import parquet

    [case] = dataset.read_cases([row()], "x", evidence=False)
    write_parquet(tmp_path / "b.parquet", [case])
    table = parquet.read_table(tmp_path / "b.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "string",
        "domain": "string",
        "level": "string",
        "ground_truth_violations": "list<element: int64>",
        "conversation": "string",
        "policy": "string",
        "rubric": "string",
        "failure_mode_metadata": "string",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: download it again"),
        (b" \n\n", "is empty"),
        (b"<!DOCTYPE html>\n<html>Log in", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (gzip.compress(b"[]", mtime=0), "gzip-compressed: unpack"),
        (b"PK\x03\x04xxxx", "zip archive: unpack"),
        ("[]".encode("utf-16"), "UTF-16"),
        (b'[{"id": "caf\xe9"}]', "is not UTF-8"),
        (b"id,domain,level\n1,fraud,L0\n", "is a CSV table"),
        (b"id\tdomain\tlevel\n1\tfraud\tL0\n", "is a CSV table"),
        (b"not json at all", "neither JSON nor Parquet, it begins 'not json at all'"),
        (b"PAR1 cut", "damaged Parquet file"),
        (b'{"metadata": {}, "data": [{"id": "a"', "stops in the middle"),
        (b'{"metadata": {}, "data": [{"id": "a"}', "stops in the middle"),
        (b'[{"id": "caf\xc3', "stops in the middle of a character"),
        (b'[{"id": "a",}]', "is not valid JSON (line 1, column 13"),
        (b'{"id": 1}\n{"id": 2}\n{"id"', "line 3, stops in the middle"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"id": 1}\n' + b"[" * 100_000 + b"]" * 100_000, "line 2, is nested too deeply"),
        (b'[{"id": ' + b"9" * 5_000 + b"}]", "holds a number with too many digits"),
        (b'{"id": 1}\n{"id": ' + b"9" * 5_000 + b"}", "line 2, holds a number with too many"),
        (b"[]", "holds no cases"),
        (b"{}", "holds no cases: expected"),
        (b'{"data": {}}', "holds no cases: expected"),
        (b'{"metadata": [1], "data": []}', "metadata is list, must be an object"),
    ],
)
def test_files_that_are_no_benchmark(write, content, message):
    path = write(content)
    with pytest.raises(DataError) as caught:
        load_benchmark(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def test_paths_that_are_no_file(tmp_path, write):
    with pytest.raises(DataError, match=r"is a directory: name the file in it, e.g. its bench"):
        load_benchmark(tmp_path)
    write([row()])
    with pytest.raises(DataError, match=r"is a directory.*e.g. .*benchmark\.json"):
        load_benchmark(tmp_path)
    for missing in (tmp_path / "no.json", "data/benchmark.json", "typo"):
        with pytest.raises(DataError, match=r"no file .*: give the path of a benchmark file"):
            load_benchmark(missing)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"id": ""}, "case 1: id is '', must be text"),
        ({"id": None}, "case 1: id is missing, must be text"),
        ({"id": True}, "case 1: id is True, must be text"),
        ({"level": "L3"}, "frau-001-l0: level is 'L3', must be L0, L1 or L2"),
        ({"level": True}, "level is True"),
        ({"domain": ""}, "domain is '', must be text, not empty"),
        ({"policy": None}, "policy is missing"),
        ({"conversation": [{"role": "user"}]}, "conversation is [{'role': 'user'}], must be text"),
        ({"framework": 3}, "framework is 3, must be text"),
        ({"ground_truth_violations": None}, "ground_truth_violations is missing"),
        ({"ground_truth_violations": ""}, "ground_truth_violations is '', must be a list"),
        ({"ground_truth_violations": " \n"}, "ground_truth_violations is ' \\n', must be a list"),
        ({"ground_truth_violations": "[" * 100_000}, "must be a list of rule numbers"),
        ({"ground_truth_violations": "[" * 900 + "]" * 900}, "must be a list of rule numbers"),
        ({"ground_truth_violations": "9" * 5_000}, "must be a list of rule numbers"),
        ({"rubric": "[" * 100_000}, "must have violations and non_violations"),
        ({"rubric": "[" * 900 + "]" * 900}, "must have violations and non_violations"),
        ({"rubric": '{"violations": ' + "9" * 5_000 + "}"}, "must have violations and"),
        ({"ground_truth_violations": [True]}, "ground_truth_violations is [True], must be a list"),
        ({"ground_truth_violations": [1.5]}, "is [1.5], must be a list of rule numbers"),
        ({"ground_truth_violations": "1 and 4"}, "is '1 and 4', must be a list"),
        ({"ground_truth_violations": "[1, 4"}, "must be a list"),
        ({"ground_truth_violations": [4, 4]}, "names a rule more than once: [4, 4]"),
        ({"rubric": None}, "rubric is missing, must have violations and non_violations"),
        ({"rubric": "{not json"}, "rubric is '{not json'"),
        ({"rubric": {"violations": []}}, "rubric.non_violations is missing, must be a list"),
        ({"rubric": {"violations": [3], "non_violations": []}}, "rubric.violations[0] is 3"),
        ({"rubric": modifier(rule="x")}, "rubric.non_violations[0].rule is 'x', must be a number"),
        ({"rubric": modifier(text=None)}, "rubric.non_violations[0].text is missing"),
        (
            {"rubric": modifier(type="trap")},
            "[0].type is 'trap', must be one of decisive, distractor, exception, conditional",
        ),
        ({"rubric": modifier(type=[])}, "[0].type is []"),
        (
            {"rubric": modifier(paired_with="all")},
            "rubric.non_violations[0].paired_with is 'all', must be a list of rule numbers",
        ),
        ({"failure_mode_metadata": None}, "failure_mode_metadata is missing, must be an object"),
        (
            {"failure_mode_metadata": {"waived_rules": {"1": 2}}},
            "failure_mode_metadata.waived_rules is {'1': 2}",
        ),
    ],
)
def test_faults_are_named(write, changes, fault):
    with pytest.raises(DataError) as caught:
        load_benchmark(write([row() | changes]))
    assert " has 1 fault: " in str(caught.value)
    assert fault in str(caught.value)


def test_every_fault_is_counted_and_twenty_are_listed(write):
    rows = [row(n, level="L9" if n % 2 else 0, domain="") for n in range(1, 31)] + [5]
    rows = [r | {"level": "L9"} if isinstance(r, dict) else r for r in rows]
    with pytest.raises(DataError) as caught:
        load_benchmark(write(rows))
    # Thirty rows with two faults each, and one row that is no object.
    assert " has 61 faults: " in str(caught.value)
    assert str(caught.value).endswith("; and 41 more")
    assert str(caught.value).count("must be") == 20


@pytest.mark.parametrize("ids", [("a", "a"), (1, "1")])
def test_one_id_for_two_cases_is_an_error(write, ids):
    with pytest.raises(DataError, match=f"{ids[1]}: id is used by case 1 and case 2"):
        load_benchmark(write([row(id=value) for value in ids]))


@pytest.fixture
def benchmark(write):
    rows = [
        row(n, level, domain=d) for n, d in ((1, "fraud"), (2, "privacy")) for level in range(3)
    ]
    return write(rows)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["1-l0", "1-l1", "1-l2", "2-l0", "2-l1", "2-l2"]),
        ({"level": "L1"}, ["1-l1", "2-l1"]),
        ({"level": 0}, ["1-l0", "2-l0"]),
        ({"level": "l0, L2"}, ["1-l0", "1-l2", "2-l0", "2-l2"]),
        ({"level": ["L0", 2]}, ["1-l0", "1-l2", "2-l0", "2-l2"]),
        ({"level": Level.L2, "domain": "Privacy"}, ["2-l2"]),
        ({"domain": "privacy,fraud", "limit": 4}, ["1-l0", "1-l1", "1-l2", "2-l0"]),
        ({"limit": 100, "domain": ["fraud"]}, ["1-l0", "1-l1", "1-l2"]),
        ({"ids": ["frau-002-l1", "frau-001-l0"]}, ["1-l0", "2-l1"]),
        ({"ids": "frau-002-l1,frau-001-l0", "level": 1}, ["2-l1"]),
    ],
)
def test_filters(benchmark, filters, expected):
    metadata, cases = load_benchmark(benchmark, **filters)
    assert [case.id.removeprefix("frau-00") for case in cases] == expected
    assert metadata["safepyramid"]["cases"] == len(expected)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"level": "L3"}, "unknown level L3; allowed: L0, L1, L2"),
        ({"level": "L0,hard"}, "unknown level hard; allowed"),
        ({"level": []}, "no level given"),
        ({"domain": "defamation"}, "unknown domain defamation; allowed: fraud, privacy"),
        ({"ids": "frau-002-11"}, "unknown case id frau-002-11; nearest: frau-002-l"),
        ({"ids": "zzz"}, "unknown case id zzz; nearest: "),
        ({"ids": "frau-001-l0", "level": 1}, "no case has level L1, ids frau-001-l0"),
        ({"limit": 0}, "limit is 0, must be at least 1"),
        ({"revision": "main"}, "is a local file and has no revision 'main'"),
    ],
)
def test_filters_that_cannot_be_met(benchmark, filters, message):
    with pytest.raises(DataError) as caught:
        load_benchmark(benchmark, **filters)
    assert message in str(caught.value)


def test_sample(monkeypatch, tmp_path, write):
    monkeypatch.setattr(dataset, "SAMPLE", tmp_path)
    with pytest.raises(DataError, match="sample is missing"):
        load_benchmark("sample")
    write([row()])
    metadata, [case] = load_benchmark("sample", evidence=True)
    assert (case.id, metadata["safepyramid"]["source"]) == ("frau-001-l0", "sample")


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.lists(st.integers(1, 40), max_size=4, unique=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
FLAGS = st.dictionaries(st.sampled_from(["applies", "violated", "active"]), JSON, max_size=2)


def entries(violated):
    entry = st.builds(
        RubricEntry,
        st.integers(1, 40),
        TEXT,
        st.sampled_from(RuleType),
        st.just(violated),
        NUMBERS.map(tuple),
        FLAGS,
        JSON,
    )
    return st.lists(entry, max_size=3).map(tuple)


CASES = st.lists(
    st.builds(
        Case,
        id=TEXT.filter(str.strip),
        domain=TEXT.filter(bool),
        level=st.sampled_from(Level),
        ground_truth_violations=NUMBERS.map(frozenset),
        conversation=TEXT,
        framework=TEXT,
        policy=TEXT.filter(bool),
        rubric=st.tuples(entries(True), entries(False)).map(lambda both: both[0] + both[1]),
        failure_mode_metadata=st.builds(
            FailureModeMetadata, *[NUMBERS.map(frozenset) for _ in range(3)]
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda case: case.id,
)


@given(CASES, st.dictionaries(TEXT, JSON, max_size=3), st.randoms())
def test_write_then_load_gives_the_same(tmp_path_factory, cases, own, random):
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    write_benchmark(path, own | {"safepyramid": {"source": "x"}}, cases, evidence=True)
    first = path.read_bytes()
    metadata, loaded = load_benchmark(path, evidence=True)
    assert loaded == sorted(cases, key=lambda case: case.id)
    provenance = metadata.pop("safepyramid")
    assert metadata == {key: value for key, value in own.items() if key != "safepyramid"}
    shuffled = random.sample(loaded, len(loaded))
    write_benchmark(path, metadata | {"safepyramid": provenance}, shuffled, evidence=True)
    assert path.read_bytes() == first
    assert data_hash(shuffled) == data_hash(cases)


def test_a_case_has_nine_fields_and_entries_an_order():
    [case] = dataset.read_cases([row(rubric=modifier(evidence=["e"]))], "x", evidence=True)
    written = case_to_dict(case, evidence=True)
    assert list(written) == [*row()]
    assert list(written["rubric"]["non_violations"][0].items()) == [
        ("rule", 3),
        ("text", "x"),
        ("type", "exception"),
        ("paired_with", [1]),
        ("applies", True),
        ("evidence", ["e"]),
    ]
    assert "evidence" not in case_to_dict(case)["rubric"]["non_violations"][0]


def test_hash_covers_what_decides_results():
    def digest(**changes):
        return data_hash(dataset.read_cases([row(**changes)], "x", evidence=True))

    same = [
        digest(),
        digest(domain="privacy"),
        digest(failure_mode_metadata={"waived_rules": [1]}),
    ]
    pairs = modifier(paired_with=[1, 2])
    other = [
        digest(id="x"),
        digest(conversation="Turn 1 - User: Ho"),
        digest(policy="1. Do."),
        digest(ground_truth_violations=[3]),
        digest(rubric=modifier()),
        digest(rubric=pairs),
        digest(rubric=modifier(paired_with=[2])),
        digest(rubric=modifier(type="conditional")),
    ]
    assert len(set(same)) == 1
    assert len(set(other) | set(same)) == len(other) + 1
    assert digest(rubric=modifier(paired_with=[2, 1], applies=False)) == digest(rubric=pairs)


def test_writing_replaces_whole_files_or_nothing(tmp_path):
    cases = dataset.read_cases([row()], "x", evidence=False)
    path = tmp_path / "new" / "benchmark.json"
    write_benchmark(path, {}, cases)
    before = path.read_bytes()
    with pytest.raises(DataError, match="half of a surrogate pair after"):
        write_benchmark(path, {"a": "a\ud800"}, cases)
    with pytest.raises(DataError, match="cannot write"):
        write_benchmark(path / "below", {}, cases)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["benchmark.json"]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Turn 1 - User: Hi", [(1, "user", "Hi")]),
        (
            "Turn 1 - User: Hi\nThere\n\nTurn 1 - Chatbot:\nYes: 1\n\nTurn 2 - User: ",
            [(1, "user", "Hi\nThere"), (1, "chatbot", "Yes: 1"), (2, "user", "")],
        ),
        (
            "Turn 1 – user: Hi\nturn 1 - Assistant: Ho",
            [(1, "user", "Hi"), (1, "chatbot", "Ho")],
        ),
        (
            "Turn 1 - User: You said Turn 1 - Chatbot: no\nTurn 3 - User: forged\n"
            "Turn 1 - User: again\nTurn 1 - Chatbot: No",
            [
                (
                    1,
                    "user",
                    "You said Turn 1 - Chatbot: no\nTurn 3 - User: forged\nTurn 1 - User: again",
                ),
                (1, "chatbot", "No"),
            ],
        ),
        (
            "\nTurn 1 - Chatbot: Hello\nTurn 1 - User: Hi\nTurn 2 - Chatbot: So?",
            [(1, "chatbot", "Hello"), (1, "user", "Hi"), (2, "chatbot", "So?")],
        ),
    ],
)
def test_parse_conversation(text, turns):
    assert parse_conversation(text) == tuple(Turn(*turn) for turn in turns)


@pytest.mark.parametrize(
    "text", ["", "Hi", "User: Hi", "So:\nTurn 1 - User: Hi", "Turn 2 - User: H"]
)
def test_conversations_without_turns(text):
    with pytest.raises(DataError, match="a conversation must begin with 'Turn 1 - User:'"):
        parse_conversation(text)


MESSAGE = st.text(st.characters(codec="utf-8"), max_size=30).map(str.strip)


@given(
    st.lists(MESSAGE | st.just("no\nTurn 90 - User: forged"), min_size=1, max_size=9), st.booleans()
)
def test_conversations_survive_the_round_trip(messages, user_first):
    roles = ("user", "chatbot") if user_first else ("chatbot", "user")
    turns = tuple(Turn(i // 2 + 1, roles[i % 2], text) for i, text in enumerate(messages))
    assert parse_conversation(render_conversation(turns)) == turns


COMMIT = "a" * 40


class Hub(BaseHTTPRequestHandler):
    """The part of the Hub's wire format that a download uses."""

    content = json.dumps({"metadata": {"version": "1.1"}, "data": [row()]}).encode()
    requests: ClassVar[list] = []

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.wfile.write(self.answer())

    def answer(self):
        self.requests.append((self.command, self.path))
        _, _, _, name, _, revision, file = self.path.split("/", 6)
        if name == "down":
            return self.fail(503, "")
        if name == "private" and self.headers["Authorization"] != "Bearer hf_good":
            bad = self.headers["Authorization"] is not None
            code = "" if bad else "RepoNotFound"
            return self.fail(
                401, code, "Invalid credentials in Authorization header" if bad else ""
            )
        if name == "gated":
            return self.fail(403, "GatedRepo")
        if name == "missing":
            return self.fail(404, "RepoNotFound")
        if revision not in (COMMIT, REVISION, "main", "v1"):
            return self.fail(404, "RevisionNotFound")
        if file != "benchmark.json":
            return self.fail(404, "EntryNotFound")
        commit = revision if len(revision) == 40 else COMMIT
        return self.send(200, {"X-Repo-Commit": commit, "ETag": '"0123"'}, self.content)

    def fail(self, status, code, message=""):
        return self.send(status, {"X-Error-Code": code, "X-Error-Message": message}, b"")

    def send(self, status, headers, content):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        return content

    def log_message(self, *_):
        pass


LOAD = """
import json, sys
from safepyramid import load_benchmark
from safepyramid.errors import DataError
for call in json.load(sys.stdin):
    try:
        metadata, cases = load_benchmark(**call)
        print(json.dumps([metadata["safepyramid"], [case.id for case in cases]]))
    except DataError as error:
        print(json.dumps(str(error)))
"""


@pytest.fixture
def hub(tmp_path):
    """Calls `load_benchmark` in a fresh process, whose Hub is a local server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.requests.clear()

    def load(*calls, **variables):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        environment = {
            **clean,
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(tmp_path / "hf"),
            "NO_PROXY": "*",
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", LOAD],
            input=json.dumps(calls),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.strip().split("\n")]

    load.server = server
    yield load
    server.shutdown()
    server.server_close()


def test_hub_download_is_pinned_recorded_and_cached(hub):
    first, second, third = hub(
        {},
        {"dataset": "acme/pyramid@v1"},
        {"dataset": "acme/pyramid", "revision": COMMIT},
    )
    provenance, ids = first
    assert ids == ["frau-001-l0"]
    assert provenance["source"] == "ByteDance/SafePyramid/benchmark.json"
    assert provenance["revision"] == REVISION
    assert len(provenance["sha256"]) == 64
    assert "warning" not in provenance
    # A tag is resolved to its commit, and what it may mean tomorrow is said.
    assert second[0]["revision"] == COMMIT
    assert "'v1' is no full commit hash" in second[0]["warning"]
    assert third[0]["revision"] == COMMIT
    hub.server.shutdown()
    hub.server.server_close()
    offline = hub(
        {}, {"dataset": "acme/pyramid@v1"}, {"dataset": "acme/pyramid", "revision": COMMIT}
    )
    assert offline == [first, second, third]
    assert hub({}, HF_HUB_OFFLINE="1") == [first]


def test_hub_private(hub):
    [message] = hub({"dataset": "acme/private"})
    assert "knows no dataset 'acme/private' that you may read (401)" in message
    assert "HF_TOKEN" in message
    [message] = hub({"dataset": "acme/private"}, HF_TOKEN="hf_bad")
    assert "refuses access to dataset 'acme/private' (401): set HF_TOKEN" in message
    assert "hf_bad" not in message
    [[provenance, _]] = hub({"dataset": "acme/private"}, HF_TOKEN="hf_good")
    assert provenance["revision"] == COMMIT


def test_hub_refusals_are_one_line_each(hub):
    gated, missing, revision, file, ids, both = hub(
        {"dataset": "acme/gated"},
        {"dataset": "acme/missing"},
        {"dataset": "acme/pyramid@v9"},
        {"dataset": "acme/pyramid", "evidence": True},
        {"dataset": "acme/--bad.."},
        {"dataset": "acme/pyramid@v1", "revision": "main"},
    )
    assert "is gated: accept its terms at https://huggingface.co/datasets/acme/gated" in gated
    assert "knows no dataset 'acme/missing' that you may read (404)" in missing
    assert "has no revision 'v9'" in revision
    assert "ask for acme/pyramid@REVISION" in revision
    assert "has no file 'benchmark_with_evidence.json' at revision 'main'" in file
    assert "'acme/--bad..' is no dataset id" in ids
    assert "two revisions for acme/pyramid, 'v1' and 'main'" in both
    assert not any("\n" in message for message in (gated, missing, revision, file, ids, both))


def test_hub_out_of_reach_and_not_cached(hub):
    [message] = hub({"dataset": "acme/pyramid"}, HF_HUB_OFFLINE="1")
    assert "is not in the cache" in message
    assert "HF_HUB_OFFLINE" in message
    assert not Hub.requests


@pytest.mark.slow
def test_hub_down_and_not_cached(hub):
    # The Hub's client tries again for some 25 seconds, so both wait at once.
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    with ThreadPoolExecutor() as pool:
        down = pool.submit(hub, {"dataset": "acme/down"})
        unreachable = pool.submit(hub, {"dataset": "acme/pyramid"}, **dead)
    [message] = down.result()
    assert "the Hub answers 503 for dataset 'acme/down': try again later" in message
    [message] = unreachable.result()
    assert "is not in the cache and the Hub cannot be reached" in message
    assert "check the network" in message


def test_disk_full_is_said(monkeypatch, tmp_path):
    import errno

    import huggingface_hub

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(DataError, match=r"no space left on the disk for 'benchmark\.json'"):
        load_benchmark("acme/pyramid")
