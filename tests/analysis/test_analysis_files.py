"""Which files make runs: parts of the data, other data, files twice, files that cannot be used."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_runs import benchmark, pyramid, result_file

from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.compare import repeats
from safepyramid.analysis.cost import cost
from safepyramid.cli.main import main
from safepyramid.dataset.load import data_hash, load_benchmark
from safepyramid.errors import DataError
from safepyramid.results.score import score_files

CASES = pyramid(3)


@pytest.fixture
def data(tmp_path):
    return benchmark(tmp_path / "data.json", CASES)


@pytest.fixture(scope="session")
def part_log(tmp_path_factory):
    """A log of the first two of the sample's L1 cases, cut by Inspect's own limit."""
    from inspect_ai import eval as inspect_eval
    from inspect_ai.log import read_eval_log

    (log,) = inspect_eval(
        "safepyramid/per_policy",
        model="none/none",
        task_args={"dataset": "sample", "level": "L1", "guard": "lexical"},
        limit=2,
        log_dir=str(tmp_path_factory.mktemp("part")),
        display="none",
    )
    assert len(read_eval_log(log.location).samples) == 2
    return Path(log.location)


def copied(log, path):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(log.read_bytes())
    return path


# --- parts of the data and other data


@pytest.mark.parametrize("dataset", [None, "sample"])
def test_a_log_that_inspect_cut_stands_on_the_cases_that_it_asked(part_log, dataset):
    (run,) = load_runs([part_log], dataset)
    assert list(run.cases) == load_benchmark("sample", level="L1", limit=2)[1]
    assert run.data_hash == data_hash(run.cases)


def test_a_log_that_inspect_cut_is_refused_on_other_data(part_log, tmp_path):
    _, cases = load_benchmark("sample")
    other = benchmark(tmp_path / "d.json", [replace(c, policy=c.policy + " ") for c in cases])
    with pytest.raises(DataError, match="made on data"):
        load_runs([part_log], other)


def test_one_log_that_does_not_fit_leaves_the_folder_standing(logs, part_log, tmp_path):
    folder = tmp_path / "folder"
    good = copied(logs["lexical"], folder / "good.eval")
    bad = copied(logs["policy"], folder / "bad.eval")
    _, cases = load_benchmark("sample", limit=6)
    copied(part_log, folder / "part.eval")
    runs = load_runs([folder], "sample", level="L2")
    assert {run.origin.path for run in runs} == {str(good), str(bad)}
    assert any("part.eval: no case has L2" in note for note in runs.notes)
    with pytest.raises(DataError, match="no case has L2"):
        load_runs([folder / "part.eval"], "sample", level="L2")
    other = benchmark(tmp_path / "d.json", [replace(c, policy=c.policy + " ") for c in cases])
    with pytest.raises(DataError, match=r"not in the dataset|made on data"):
        load_runs([folder], other)


def test_a_whole_file_on_other_data_is_refused(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES, header={"data_hash": "0" * 64})
    with pytest.raises(DataError, match="made on data 00000000, but the cases in the dataset are"):
        load_runs([file], data)


def test_a_named_part_of_other_data_is_refused(tmp_path, data):
    header = {"data_hash": "0" * 64, "selection": {"level": "L0", "domain": None, "limit": None}}
    file = result_file(tmp_path / "run.jsonl", CASES[:1], header=header)
    with pytest.raises(DataError, match="made on data 00000000"):
        load_runs([file], data)


def test_an_unfinished_file_stands_on_the_part_that_it_names(tmp_path, data):
    part = [each for each in CASES if each.level == "L0"]
    header = {
        "data_hash": data_hash(part),
        "selection": {"level": "L0", "domain": None, "limit": None},
    }
    (run,) = load_runs([result_file(tmp_path / "run.jsonl", part[:1], header=header)], data)
    assert [case.id for case in run.cases] == [case.id for case in part]
    assert [str(said.state) for said in run.predictions.values()] == [
        "answered",
        "missing",
        "missing",
    ]


def test_a_part_that_nothing_names_is_never_ranked_with_the_rest(tmp_path, data):
    part = result_file(tmp_path / "part.jsonl", CASES[:4], header={"data_hash": "0" * 64})
    whole = result_file(tmp_path / "whole.jsonl", CASES)
    runs = load_runs([part, whole], data)
    assert any("other data or on a part of it" in note for note in runs.notes)
    assert len(runs.blocks()) == 2
    assert "data 00000000" in runs[0].stands_on


# --- filters


def test_filters_take_the_costs_of_what_they_leave_out(logs):
    whole, part = (load_runs([logs["policy"]], level=level) for level in (None, "L1"))
    share = len(part[0].cases) / len(whole[0].cases)
    assert 0 < share < 1
    for frame in (load.usage for load in (whole, part)):
        assert frame["calls"].notna().all()
    assert part.usage["calls"][0] == share * whole.usage["calls"][0]
    assert part.usage["input_tokens"][0] == share * whole.usage["input_tokens"][0]
    assert set(part[0].seconds) == {case.id for case in part[0].cases}
    assert part.runs["calls"][0] == part.usage["calls"][0]


def test_cases_that_were_not_asked_do_not_make_the_others_cheap(logs, tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(logs["policy"]))
    for sample in log.samples:
        for use in sample.model_usage.values():
            use.total_cost = 0.5
    log.samples = [sample for sample in log.samples if sample.epoch == 1][:3]
    write_eval_log(log, str(tmp_path / "part.eval"))
    frame = cost(load_runs([tmp_path / "part.eval"], "sample"))
    row = frame[frame["calls"].notna()].iloc[0]
    assert (row["price"], row["price_per_case"]) == (1.5, 0.5)


# --- files twice


def test_a_file_given_twice_is_no_repetition(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES)
    (tmp_path / "sub").mkdir()
    runs = load_runs([file, tmp_path / "sub" / ".." / "run.jsonl"], data)
    assert len(runs) == 1
    assert any("counted once" in note for note in runs.notes)
    assert repeats(runs).empty


def test_a_copy_of_a_log_is_no_repetition(logs, tmp_path):
    copy = copied(logs["lexical"], tmp_path / "copy.eval")
    assert len(load_runs([logs["lexical"].parent, logs["lexical"]])) == 1
    runs = load_runs([logs["lexical"], copy])
    assert [run.name for run in runs] == ["lexical"]
    assert any("of the same evaluation" in note for note in runs.notes)
    assert len(load_runs([logs["lexical"], copy], keep_all=True)) == 2


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_epochs_can_be_compared(logs):
    log = logs["policy"]
    found = call("compare", log, log, "--epochs", 1, 2, "--draws", 100)
    assert found.exit_code == 0, found.output
    assert "mockllm/model #2 against mockllm/model #1" in found.output
    for epochs, message in (
        ((1, 1), "are the same run"),
        ((1, 3), "has no epoch 3; it has 1 to 2"),
    ):
        found = call("compare", log, log, "--epochs", *epochs)
        assert found.exit_code == 1
        assert message in found.output


def test_two_readings_of_one_log_can_be_compared(logs, tmp_path):
    again = copied(logs["lexical"], tmp_path / "again.eval")
    assert call("compare", logs["lexical"], again, "--draws", 100).exit_code == 0


# --- headers that hold what they cannot


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"config": "x"}, "config is 'x' in a header; allowed: an object"),
        ({"options": [1]}, r"options is '\[1\]' in a header; allowed: an object"),
        ({"created": 5}, "created is '5' in a header; allowed: a text"),
        ({"guard": ["x"]}, "guard is .* allowed: a text"),
        ({"data_hash": 7}, "data_hash is '7' in a header"),
    ],
)
def test_a_header_with_odd_values_is_refused_in_one_line(tmp_path, data, header, message):
    file = result_file(tmp_path / "run.jsonl", CASES, header=header)
    for use in (load_runs, score_files):
        with pytest.raises(DataError, match=message) as caught:
            use([file], data)
        assert "\n" not in str(caught.value)
    assert "line 1" in str(caught.value)


def test_names_are_cleaned_where_they_come_in(tmp_path, data):
    odd = "\x1b[31mlow\n|\uffff"
    header = {"guard": f"g{odd}", "harness": odd, "config": {"reasoning_effort": odd}}
    file = result_file(tmp_path / "run.jsonl", CASES, model=f"m{odd}", header=header)
    origin = load_runs([file], data)[0].origin
    clean = "[31mlow |"
    assert (origin.model, origin.guard) == (f"m {clean}", f"g {clean}")
    assert (origin.harness, origin.effort) == (clean, clean)


def test_a_cut_line_is_named_once(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES)
    file.write_bytes(file.read_bytes()[:-20])
    (note, *_) = load_runs([file], data).notes
    assert note.count("run.jsonl") == 1


def test_json_lines_of_a_whole_table_are_json(tmp_path, data):
    file = result_file(tmp_path / "run.jsonl", CASES)
    found = call("table", "results", file, "--dataset", data, "--format", "jsonl", "--draws", 100)
    rows = [json.loads(line) for line in found.output.split("\n") if line.startswith("{")]
    assert {row["alike"] for row in rows if row["section"] == "runs"} == {True}
