"""`review.jsonl` as people and their tools leave it: nothing in it is passed over in silence."""

import json
from dataclasses import replace

import pytest
from scripted_models import author, ballot, stage_of

from safepyramid.construct.decisions import read_decisions
from safepyramid.construct.release import cases_of
from safepyramid.construct.runs import load
from safepyramid.construct.status import render_status, status
from safepyramid.errors import DataError


def lazy(told):
    """Writes as it should, and votes on nothing that anybody said."""
    if stage_of(told) != "vote":
        return author(told)
    said = ballot(told)
    for rule in said["rules"]:
        rule["answers"][0]["quote"]["text"] = "nobody said that"
    return json.dumps(said)


@pytest.fixture
def waiting(lab):
    """A run whose L0 waits for people, and a line that keeps each of its rules."""
    lab.script(anna=lazy, cleo=lazy)
    (outcome,) = lab.make(last="L0")
    lines = [
        {
            "kind": "rule",
            "conversation": subject.conversation,
            "level": "L0",
            "key": subject.key,
            "content": subject.content,
            "decision": "keep",
            "labels": {"broken": subject.rule.broken},
            "reviewer": "rosa",
        }
        for subject in outcome.waiting
    ]
    assert len(lines) == 5
    return lab.folder, lines


def written(folder, *lines, end="\n"):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "review.jsonl").write_text(text + end, encoding="utf-8")
    loaded = load(folder)
    return loaded.outcomes[0], loaded.decisions.notes(), loaded


@pytest.mark.parametrize("end", ["\n", "", "\r\n", "\n\n"])
def test_the_last_line_counts_with_and_without_a_newline(waiting, end):
    folder, lines = waiting
    outcome, notes, _ = written(folder, *lines, end=end)
    assert (outcome.standing, outcome.step, notes) == ("open", "L1", [])


def test_a_last_line_that_is_cut_short_is_left_out_and_said_to_be(waiting):
    folder, lines = waiting
    outcome, notes, loaded = written(folder, *lines[:-1], json.dumps(lines[-1])[:-9], end="")
    assert [subject.key for subject in outcome.waiting] == [lines[-1]["key"]]
    assert notes == ["review.jsonl: the last line is cut short and is left out"]
    assert notes[0] in render_status(status(loaded), loaded.outcomes)


def test_a_mark_at_the_beginning_of_the_file_does_no_harm(waiting):
    folder, lines = waiting
    first = "\ufeff" + json.dumps(lines[0])
    assert written(folder, first, *lines[1:])[0].step == "L1"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"key": "d9"}, "frau-001 L0 d9"),
        ({"content": "of other words"}, "frau-001 L0 d1"),
        ({"conversation": "frau-999"}, "frau-999 L0 d1"),
    ],
)
def test_decisions_that_apply_to_nothing_are_counted(waiting, change, named):
    folder, lines = waiting
    outcome, notes, loaded = written(folder, {**lines[0], **change}, *lines[1:])
    assert outcome.standing == "review"
    (note,) = notes
    assert note.startswith("review.jsonl: 1 decisions apply to nothing")
    assert note.endswith(named)
    assert note in render_status(status(loaded), loaded.outcomes)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"lables": {}}, "lables Extra inputs are not permitted"),
        ({"labels": {"broken": "often"}}, "valid boolean"),
        ({"decision": "maybe"}, "'keep' or 'drop'"),
        ({"kind": "law"}, "does not match any of the expected tags"),
    ],
)
def test_a_line_that_is_no_decision_is_named(waiting, change, fault):
    folder, lines = waiting
    with pytest.raises(DataError, match=r"review\.jsonl, line 2: ") as error:
        written(folder, lines[1], {**lines[0], **change})
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path):
    (tmp_path / "review.jsonl").write_bytes('{"reviewer": "José"}'.encode("latin-1"))
    with pytest.raises(DataError, match="is not UTF-8"):
        read_decisions(tmp_path)
    (tmp_path / "review.jsonl").unlink()
    (tmp_path / "review.jsonl").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_decisions(tmp_path)


def test_decisions_about_cases_apply_to_the_case_that_was_seen(lab):
    (outcome,) = lab.make()
    from safepyramid.construct.decisions import case_content

    case = cases_of(outcome)[1]
    line = {
        "kind": "case",
        "case": case.id,
        "content": case_content(case),
        "decision": "accept",
        "reviewer": "rosa",
    }
    assert written(lab.folder, line)[1] == []
    edited = replace(case, policy=case.policy + " And so on.")
    (note,) = written(lab.folder, {**line, "content": case_content(edited)})[1]
    assert note.endswith(case.id)
