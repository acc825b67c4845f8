"""Run folders: nothing that was written is lost, and half a line does no harm."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safepyramid.construct.records import Call, Journal, Record, read_manifest, row_of
from safepyramid.construct.runs import load
from safepyramid.errors import RunError, SafepyramidError

TEXT = "a\u2028b\u0085c é \N{GRINNING FACE} \ud83d \x00 \n \r end"


def record(id, *, state="done", asked="q", price=0.5, reply=TEXT):
    call = Call(reply, "stop", input_tokens=10, output_tokens=5, price=price)
    return Record(
        stage="l0", id=id, state=state, model="a/b", prompt="p", asked=asked, calls=(call,),
        output={"text": reply},
    )  # fmt: skip


def write(folder, *records):
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, write=True)
    for item in records:
        journal.append(item)
    journal.close()
    return folder / "l0.jsonl"


def test_records_come_back_as_they_were(tmp_path):
    write(tmp_path, record("one"), record("two", asked="r"))
    journal = Journal(tmp_path)
    assert journal.get("l0", "one", "q") == record("one")
    assert journal.get("l0", "two", "r") == record("two", asked="r")
    assert journal.get("l0", "one", "another question") is None
    assert journal.get("l0", "three", "q") is None
    assert journal.get("l1", "one", "q") is None


def test_the_later_of_two_records_counts_and_both_are_paid_for(tmp_path):
    write(tmp_path, record("one", state="error"), record("one"))
    journal = Journal(tmp_path)
    assert journal.get("l0", "one", "q").state == "done"
    assert [item.price for item in journal.all()] == [0.5, 0.5]
    assert len(list(journal.current())) == 1


def test_what_is_withdrawn_is_not_there(tmp_path):
    write(tmp_path, record("one"), record("one", state="withdrawn"))
    assert Journal(tmp_path).get("l0", "one", "q") is None


def test_the_price_of_a_record_is_unknown_if_that_of_a_call_is():
    assert record("one", price=None).price is None
    assert record("one", price=0.0).price == 0.0


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.integers(min_value=0))
def test_a_file_cut_anywhere_keeps_its_whole_lines(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("cut")
    path = write(folder, record("one"), record("two"), record("three"))
    content = path.read_bytes()
    cut %= len(content) + 1
    path.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")

    # a reader leaves the file alone
    assert len(list(Journal(folder).current())) == whole
    assert path.read_bytes() == content[:cut]

    write(folder, record("four"))
    lines = path.read_bytes().decode().strip().split("\n")
    assert [json.loads(line)["id"] for line in lines] == [*("one", "two", "three")[:whole], "four"]
    assert Journal(folder).get("l0", "four", "q") == record("four")


def test_a_line_that_is_no_record_is_named(tmp_path):
    path = write(tmp_path, record("one"))
    path.write_bytes(b'{"id": 1}\n' + path.read_bytes())
    with pytest.raises(RunError, match=r"l0\.jsonl, line 1 is no record"):
        Journal(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "dnoe"},
        {"stage": "l1"},
        {"stage": "nowhere"},
        {"model": None},
        {"calls": 5},
        {"calls": ["x"]},
        {"calls": [{"reply": "x", "stop_reason": "stop", "price": "free"}]},
        {"calls": [{"reply": "x", "stop_reason": "stop", "price": float("nan")}]},
        {"calls": [{"reply": "x", "stop_reason": "stop", "price": float("-inf")}]},
        {"calls": [{"reply": "x", "stop_reason": "stop", "output_tokens": -1}]},
        {"calls": [{"reply": "x", "stop_reason": "stop", "cost": 1}]},
        {"output": ["x"]},
        {"faults": None},
        {"faults": {"d1": 5}},
        {"more": 1},
    ],
)
def test_a_line_that_was_changed_by_hand_is_named(tmp_path, change):
    path = write(tmp_path, record("one"))
    path.write_text(json.dumps({**row_of(record("one")), **change}) + "\n")
    with pytest.raises(RunError, match=r"l0\.jsonl, line 1 is no record"):
        Journal(tmp_path)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("[]", "manifest.json cannot be read"),
        ("5", "manifest.json cannot be read"),
        ("{", "manifest.json cannot be read"),
        ("[" * 100_000, "manifest.json cannot be read"),
        ("{}", "has format None, this version reads 1"),
        ('{"format": 1}', "was begun otherwise: settings."),
        ('{"format": 1, "settings": 5}', "valid dictionary"),
        ('{"format": 1, "settings": {"models": 3}}', "models"),
    ],
)
def test_a_manifest_that_was_changed_by_hand_is_named(lab, content, error):
    lab.make(last="conversation")
    (lab.folder / "manifest.json").write_text(content)
    with pytest.raises(SafepyramidError, match=error) as raised:
        load(lab.folder)
    assert "\n" not in str(raised.value)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "l0.jsonl").mkdir()
    for write in (True, False):
        with pytest.raises(RunError, match=r"l0\.jsonl cannot be opened: Is a directory"):
            Journal(tmp_path, write=write)


def test_a_folder_without_a_manifest_has_none(tmp_path):
    assert read_manifest(tmp_path) is None


def changed_line(path, change):
    """Change what the first line of a file holds."""
    first, *rest = path.read_text(encoding="utf-8").split("\n")
    row = json.loads(first)
    change(row["output"])
    path.write_text("\n".join([json.dumps(row), *rest]), encoding="utf-8")


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("conversation", lambda output: output.pop("exchanges")),
        ("l0", lambda output: output.update(decisive=5)),
        ("vote", lambda output: output.update(d1=["yes"])),
        ("vote", lambda output: output.update(dict.fromkeys(output, "yes"))),
        ("vote", lambda output: [given.pop("observable") for given in output.values()]),
        ("vote", lambda output: [given["observable"].pop("quote") for given in output.values()]),
        (
            "vote",
            lambda output: [
                given["observable"].update(answer="maybe") for given in output.values()
            ],
        ),
    ],
)
def test_an_answer_that_was_changed_by_hand_is_named(lab, stage, change):
    lab.make(last="L0")
    changed_line(lab.folder / f"{stage}.jsonl", change)
    with pytest.raises(RunError, match=rf"{stage}\.jsonl: the record 'frau-001/.* does not hold"):
        load(lab.folder)
