"""Releases of small runs: what is in them, what is left out, and that they repeat."""

import hashlib
import json

import pytest
import yaml
from scripted_models import author, ballot, base, bases, conversation, stage_of

from safepyramid.construct.card import front_matter
from safepyramid.construct.decisions import case_content
from safepyramid.construct.errata import changes
from safepyramid.construct.release import cases_of, release
from safepyramid.dataset.check import check_cases
from safepyramid.dataset.load import load_benchmark
from safepyramid.errors import DataError

FILES = {
    "README.md",
    "SHA256SUMS",
    "VERSION",
    "benchmark.json",
    "benchmark.parquet",
    "benchmark_with_evidence.json",
    "croissant.json",
    "errata.json",
}


def released(lab, name="release", **more):
    output = lab.folder.with_name(name)
    made = release(lab.folder, output, version="1.0", name="Lab", **more)
    return output, made


def test_a_release_is_whole_and_clean(lab):
    lab.settings = {**lab.settings, "conversations": 3}
    lab.make()
    output, made = released(lab, license="CC-BY-4.0")

    assert (made.cases, made.conversations, made.unfinished, made.left_out) == (9, 3, 0, {})
    assert {path.name for path in output.iterdir()} == FILES
    for line in (output / "SHA256SUMS").read_text().strip().split("\n"):
        digest, name = line.split("  ")
        assert hashlib.sha256((output / name).read_bytes()).hexdigest() == digest
    metadata, cases = load_benchmark(output / "benchmark.json")
    assert check_cases(cases) == []
    assert metadata["models"]["L2"] == "scripted/dora"
    assert [case.id for case in cases[:3]] == ["frau-001-l0", "frau-001-l1", "frau-001-l2"]
    _, table = load_benchmark(output / "benchmark.parquet")
    assert [case.ground_truth_violations for case in table] == [
        case.ground_truth_violations for case in cases
    ]
    assert (output / "VERSION").read_text() == "1.0\n"


def test_the_evidence_is_every_vote(lab):
    def invented(told):
        said = ballot(told)
        for rule in said["rules"]:
            rule["answers"][0]["quote"]["text"] = "nobody said that"
        return json.dumps(said)

    lab.script(anna=lambda told: invented(told) if stage_of(told) == "vote" else author(told))
    lab.make()
    output, _ = released(lab)
    _, cases = load_benchmark(output / "benchmark_with_evidence.json", evidence=True)

    l1 = cases[1]
    for entry in l1.rubric:
        voters = {row["validator"] for row in entry.evidence}
        author_of = "scripted/cleo" if entry.type.is_modifier else "scripted/ben"
        assert voters == {f"scripted/{n}" for n in ("anna", "ben", "cleo", "dora")} - {author_of}
        (unreadable,) = [row for row in entry.evidence if "unreadable" in row]
        assert unreadable["validator"] == "scripted/anna"
        assert "does not say 'nobody said that'" in unreadable["unreadable"]
        for row in entry.evidence:
            if "unreadable" not in row:
                assert row["quotes"][0]["text"] in l1.conversation
                # rules are named by the numbers that they have in this very policy
                assert f"Rule {entry.rule}" in row["reasoning"]
                assert "[[" not in json.dumps(row)


def test_the_same_run_gives_the_same_bytes(lab):
    lab.make()
    one, _ = released(lab, "one")
    two, _ = released(lab, "two")
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {
        p.name: p.read_bytes() for p in two.iterdir()
    }


def test_the_card_has_the_numbers_of_the_run(lab):
    def script(told):
        if stage_of(told) == "repair":
            return "no"
        if stage_of(told) == "l0":
            rules = bases(told)
            rules["distractor"][0] = base(told, "x1", "engaged")
            return json.dumps(rules)
        return author(told)

    lab.script(ben=script)
    lab.make()
    output, _ = released(lab)
    card = (output / "README.md").read_text()

    # 5 written, x1 dropped: it failed a check and was not mended
    assert "| L0 | 5 | 0 (0.0 %) | 1 (20.0 %) | 0 (0.0 %) | 0 (0.0 %) | 0 (0.0 %) |" in card
    assert "| distractor | check | engaged | 1 |" in card
    # 3 votes on x1 and x2 at L0, as many on two distractors at L2: 9 of 12 as expected
    assert "| distractor | engaged | 12 | 9 (75.0 %) |" in card
    # 4 rules in the case, 5 put to the vote, by three each
    assert "| voted | L0 | 5 | 40.0 % | 100.0 % | 1.000 | 1.000 |" in card
    assert "| kept | L0 | 4 | 50.0 % | 100.0 % | 1.000 | 1.000 |" in card
    assert "| L0 | 1 | 3 | 1 | 0 | 0 | 4 | 4 |" in card
    # the repair and its correction
    assert "| repair | scripted/ben | 2 | 1 | 2,000 | 200 | 2 calls of unknown price |" in card
    assert "| vote | scripted/anna | 3 | 0 | 3,000 | 300 | 3 calls of unknown price |" in card
    assert "| triggered, met | triggered, not met | not triggered |" in card


def test_what_people_removed_is_left_out_with_all_its_levels(lab):
    lab.settings = {**lab.settings, "conversations": 2}
    lab.make()
    output, _ = released(lab, "before")
    _, cases = load_benchmark(output / "benchmark.json")
    seen = next(case for case in cases if case.id == "frau-002-l1")
    line = {"kind": "case", "case": seen.id, "reviewer": "rosa", "note": "could be read two ways"}
    lines = [
        {**line, "content": "of another text", "decision": "remove"},
        {**line, "content": case_content(seen), "decision": "accept"},
        {**line, "content": case_content(seen), "decision": "remove"},
    ]
    (lab.folder / "review.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    output, made = released(lab)

    assert made.left_out == {
        "frau-002": "frau-002-l1 removed in review (rosa: could be read two ways)"
    }
    assert made.cases == 3
    assert len(made.notes) == 1  # the one of another text
    assert made.notes[0].endswith("frau-002-l1")
    assert "could be read two ways" in (output / "README.md").read_text()


def test_errata_tell_what_has_changed(lab):
    lab.settings = {**lab.settings, "conversations": 2}
    lab.make()
    first, _ = released(lab, "first")
    _, cases = load_benchmark(first / "benchmark.json")
    line = {
        "kind": "case",
        "case": cases[3].id,
        "content": case_content(cases[3]),
        "decision": "remove",
        "reviewer": "rosa",
    }
    (lab.folder / "review.jsonl").write_text(json.dumps(line) + "\n")
    second = lab.folder.with_name("second")
    release(lab.folder, second, version="1.1", name="Lab", previous=first)

    assert json.loads((first / "errata.json").read_text())["entries"] == []
    found = json.loads((second / "errata.json").read_text())
    assert (found["version"], found["previous"]) == ("1.1", "1.0")
    assert found["entries"] == [
        {"version": "1.1", "case": f"frau-002-l{n}", "change": "removed"} for n in (0, 1, 2)
    ]
    with pytest.raises(DataError, match=r"has version 1\.1, so 1\.1 will not do"):
        release(lab.folder, lab.folder.with_name("third"), version="1.1", name="x", previous=second)


def test_changes_name_each_field_that_bears_on_results(sample):
    from dataclasses import replace

    before = sample[:4]
    after = [
        replace(before[0], ground_truth_violations=frozenset({1})),
        replace(before[1], policy=before[1].policy + " ", conversation="Turn 1 - User: Hi"),
        replace(before[2], id="new"),
    ]
    relabeled = replace(before[3].rubric[0], paired_with=(7,))
    modes = replace(before[3].failure_mode_metadata, waived_rules=frozenset({99}))
    other = replace(
        before[3], rubric=(relabeled, *before[3].rubric[1:]), failure_mode_metadata=modes
    )
    assert changes([before[3]], [other]) == [
        {"case": before[3].id, "change": "failure_mode_metadata"},
        {"case": before[3].id, "change": "rubric"},
    ]
    was = sorted(before[0].ground_truth_violations)
    after.append(before[3])
    expected = [
        {"case": before[0].id, "change": "ground_truth_violations", "was": was, "now": [1]},
        {"case": before[1].id, "change": "conversation"},
        {"case": before[1].id, "change": "policy"},
        {"case": before[2].id, "change": "removed"},
        {"case": "new", "change": "added"},
    ]
    assert sorted(changes(before, after), key=str) == sorted(expected, key=str)
    assert changes(sample, sample) == []


def test_a_version_is_higher_than_the_one_before(lab):
    lab.make()
    first, _ = released(lab, "first")
    for version in ("0.5", "1", "1.0", "1.0.0"):
        with pytest.raises(DataError, match=rf"has version 1\.0, so {version} will not do"):
            release(
                lab.folder, lab.folder.with_name("x"), version=version, name="x", previous=first
            )
    later = lab.folder.with_name("later")
    release(lab.folder, later, version="1.10", name="Lab", previous=first)
    last = lab.folder.with_name("last")
    with pytest.raises(DataError, match=r"has version 1\.10, so 1\.9"):
        release(lab.folder, last, version="1.9", name="Lab", previous=later)
    assert not last.exists()


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"version": "1.0\nx"}, "must be numbers with dots"),
        ({"version": "v1"}, "must be numbers with dots"),
        ({"version": ""}, "must be numbers with dots"),
        ({"name": "One\nTwo"}, "must be one line of text"),
        ({"name": " "}, "must be one line of text"),
        ({"license": "as you like it"}, "must be an id such as CC-BY-4.0 or an address"),
        ({"date": "yesterday"}, "must be a day such as 2026-11-30"),
        ({"date": "20261130"}, "must be a day such as 2026-11-30"),
    ],
)
def test_what_cannot_stand_in_a_card_is_refused(lab, more, error):
    lab.make()
    output = lab.folder.with_name("out")
    with pytest.raises(DataError, match=error):
        release(lab.folder, output, **{"version": "1.0", "name": "Lab", **more})
    assert not output.exists()


@pytest.mark.parametrize("name", ['Brindle: Bank #1 "x"', "- a list", "null", "Größe & {x}", "1.0"])
@pytest.mark.parametrize(
    ("license", "front"),
    [
        ("CC-BY-4.0", {"license": "cc-by-4.0"}),
        ("https://Foo.org/X", {"license": "other", "license_link": "https://Foo.org/X"}),
        (None, {}),
    ],
)
def test_the_cards_front_matter_says_what_was_given(name, license, front):
    text = front_matter(name, license)
    assert text.startswith("---\n")
    assert text.endswith("\n---")
    found = yaml.safe_load(text.removeprefix("---").removesuffix("---"))
    assert found["pretty_name"] == name
    assert {key: found[key] for key in found if "license" in key} == front
    assert found["configs"] == [{"config_name": "default", "data_files": "benchmark.parquet"}]


def test_the_card_says_why_drafts_were_dropped(lab):
    def script(told):
        if stage_of(told) == "repair":
            return "no"
        if stage_of(told) == "l0":
            rules = bases(told)
            rules["distractor"][0]["broken"] = True
            return json.dumps(rules)
        return author(told)

    lab.script(ben=script)
    lab.make()
    output, _ = released(lab)
    card = (output / "README.md").read_text()
    assert "| L0 | 5 | 1 (20.0 %) | 0 (0.0 %) |" in card
    assert "| distractor | draft | a distractor is never broken | 1 |" in card


def test_of_two_that_are_alike_the_removed_one_takes_no_other_with_it(lab):
    """The later one repeats the first, and stays when the first is removed in review."""

    def same(told):
        if stage_of(told) == "conversation":
            return conversation("Exactly 12 exchanges")
        return author(told)

    # Two scenarios: the pipeline compares within a scenario only, the release all.
    lab.settings = {**lab.settings, "conversations": 2}
    lab.script(anna=same)
    outcomes = lab.make()
    assert [outcome.standing for outcome in outcomes] == ["complete"] * 2
    _, made = released(lab, "before")
    assert made.left_out == {"frau-002": "nearly the same as frau-001"}

    case = cases_of(outcomes[0])[0]
    line = {
        "kind": "case",
        "case": case.id,
        "content": case_content(case),
        "decision": "remove",
        "reviewer": "rosa",
    }
    (lab.folder / "review.jsonl").write_text(json.dumps(line))
    _, made = released(lab, "after")
    assert list(made.left_out) == ["frau-001"]
    assert made.conversations == 1


def test_croissant_describes_the_files(lab):
    lab.make()
    output, _ = released(lab, license="CC-BY-4.0", date="2026-11-30")
    found = json.loads((output / "croissant.json").read_text())

    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert found["license"] == "CC-BY-4.0"
    assert found["datePublished"] == "2026-11-30"
    assert found["citeAs"].startswith("Lab, version 1.0.")
    for entry in found["distribution"]:
        content = (output / entry["contentUrl"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["contentSize"] == f"{len(content)} B"
    columns = [field["source"]["extract"]["column"] for field in found["recordSet"][0]["field"]]
    from pyarrow import parquet

    assert columns == parquet.read_schema(output / "benchmark.parquet").names


def test_a_release_needs_something_to_release_and_a_place(lab, tmp_path):
    lab.make(last="L0")
    with pytest.raises(DataError, match="nothing to release"):
        released(lab)
    lab.make()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("x")
    with pytest.raises(DataError, match="is not empty"):
        released(lab, "taken")
    with pytest.raises(DataError, match=r"cannot write to .*: Not a directory"):
        release(lab.folder, tmp_path / "taken/file/below", version="1.0", name="Lab")
