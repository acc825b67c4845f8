"""Inspect logs as runs: cases, epochs, usage, replies."""

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_runs import benchmark

from safepyramid.analysis.causes import wrong_rule_rows
from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.compare import repeats
from safepyramid.analysis.cost import cost, price_of_calls
from safepyramid.dataset.load import load_benchmark
from safepyramid.errors import DataError, GuardError
from safepyramid.results.logs import _score, _UsageReader, is_log, read_log, read_replies
from safepyramid.results.read import results_from_lines
from safepyramid.results.score import score_results
from safepyramid.scorers import rule_set

CASES = 6


@pytest.fixture(scope="module")
def runs(logs):
    return load_runs([logs["policy"], logs["rule"], logs["lexical"]])


def test_every_epoch_is_a_run(runs):
    assert [run.name for run in runs] == [
        "mockllm/model · per-policy #1",
        "mockllm/model · per-policy #2",
        "mockllm/model · per-rule",
        "lexical",
    ]
    assert [run.origin.epoch for run in runs] == [1, 2, 1, 1]
    assert [len(run.cases) for run in runs] == [CASES] * 4
    assert runs[3].origin.model is None


def test_the_cases_are_those_of_the_data(runs):
    _, cases = load_benchmark("sample", limit=CASES)
    for run in runs:
        assert list(run.cases) == cases
    assert len({run.data_hash for run in runs}) == 1


def test_scores_are_those_of_the_result_lines(runs, logs):
    _, cases = load_benchmark("sample", limit=CASES)
    for index, name in ((0, "policy"), (2, "rule"), (3, "lexical")):
        expected = results_from_lines(read_log(logs[name]))
        assert score_results(expected, cases)["groups"]["ALL"]["scored"] == sum(
            p.violated is not None for p in runs[index].predictions.values()
        )
        for case in cases:
            assert runs[index].predictions[case.id].state == expected.predictions[case.id].state


def test_lines_stand_in_the_order_of_the_data(logs):
    _, cases = load_benchmark("sample", limit=CASES)
    ids = [line["id"] for line in read_log(logs["policy"]) if "id" in line]
    assert ids == [case.id for case in cases]


def test_rules_that_the_policy_lacks_are_kept(runs):
    answered = [p for p in runs[0].predictions.values() if p.violated is not None]
    assert answered
    assert all(p.unknown_rules == {99} for p in answered)
    frame = runs.rules
    unknown = frame[frame["type"] == "unknown"]
    assert set(unknown["rule"]) == {99}
    assert set(unknown["wrong"]) == {"fp"}
    assert set(unknown["attributed"]) == {"unknown"}


def test_usage_is_per_epoch_and_its_price_unknown(runs):
    frame = runs.usage.set_index("run")
    for name in ("mockllm/model · per-policy #1", "mockllm/model · per-policy #2"):
        row = frame.loc[name]
        assert (row["calls"], row["input_tokens"], row["cache_read_tokens"]) == (6, 6000, 600)
        assert (row["output_tokens"], row["reasoning_tokens"]) == (300, 180)
        assert row.isna()["price"]
    per_rule = frame.loc["mockllm/model · per-rule"]
    judged = sum(len(p.judgments) for p in runs[2].predictions.values())
    assert (per_rule["calls"], per_rule["input_tokens"]) == (judged, 1000 * judged)
    # A guard that calls no model costs nothing, which is known.
    nothing = frame.loc["lexical"]
    assert (nothing["calls"], nothing["input_tokens"], nothing["price"]) == (0, 0, 0.0)


def test_run_table(runs):
    frame = runs.runs.set_index("run")
    row = frame.loc["lexical"]
    assert (row["guard"], row["protocol"], row["cases"], row["scored"]) == (
        *("lexical", "per_policy"),
        *(CASES, CASES),
    )
    assert row["created"].startswith("20")
    assert row["seconds_per_case"] > 0
    assert row["wall_seconds"] >= 0


def test_epochs_repeat_each_other(runs):
    frame = repeats(runs)
    row = frame[frame["level"] == "ALL"].iloc[0]
    assert (row["runs"], row["same_answer"], row["agreement"]) == (2, 1.0, 1.0)


def test_replies(logs, runs):
    said = read_replies(logs["policy"], [case.id for case in runs[0].cases], epoch=2)
    assert "violated_rules" in json.dumps(said)
    per_rule = read_replies(logs["rule"], [runs[2].cases[0].id])
    assert set(per_rule) == {runs[2].cases[0].id}
    judged = runs[2].predictions[runs[2].cases[0].id].judgments
    assert set(per_rule[runs[2].cases[0].id]) == {j.rule for j in judged}
    assert read_replies(logs["policy"], []) == {}


def test_wrong_rules_quote_the_model(runs):
    rows = [row for row in wrong_rule_rows(runs) if row["run"] == "mockllm/model · per-rule"]
    assert rows
    assert all('"verdict"' in row["reply"] for row in rows)
    json.dumps(rows)


def test_a_folder_holds_the_furthest_log_of_each_evaluation(logs, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    whole = folder / "a.eval"
    whole.write_bytes(logs["lexical"].read_bytes())
    with zipfile.ZipFile(folder / "other.eval", "w") as file:
        file.writestr("nothing", "")
    found = load_runs([folder])
    assert [run.origin.path for run in found] == [str(whole)]
    assert any("other.eval" in note for note in found.notes)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="folder without logs"):
        load_runs([empty])


def test_an_unfinished_log_needs_its_data(logs, tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(logs["lexical"]))
    log.samples = log.samples[:4]
    part = tmp_path / "part.json"
    write_eval_log(log, str(part))
    assert is_log(part)
    with pytest.raises(DataError, match=r"1 more of its 6 cases .* give --dataset"):
        load_runs([part])
    (run,) = load_runs([part], "sample")
    assert [str(p.state) for p in run.predictions.values()] == ["answered"] * 4 + ["missing"] * 2
    # Another log of the same data has the cases too.
    assert len(load_runs([logs["lexical"], part], keep_all=True)[1].cases) == CASES


def test_other_data_is_refused(logs, tmp_path):
    _, cases = load_benchmark("sample")
    changed = [replace(cases[0], policy=cases[0].policy.replace("The", "the")), *cases[1:]]
    assert changed[0].policy != cases[0].policy
    file = benchmark(tmp_path / "changed.json", changed)
    with pytest.raises(DataError, match="made on data"):
        load_runs([logs["lexical"]], file)


def test_not_a_log(tmp_path):
    file = tmp_path / "broken.eval"
    file.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not readable as an Inspect log"):
        load_runs([file])
    assert not is_log(tmp_path / "missing.json")
    assert is_log(Path("some.eval"))
    (tmp_path / "results.json").write_text('{"id": 1}', encoding="utf-8")
    assert not is_log(tmp_path / "results.json")


# --- usage by role


def tokens(given, output, read=None, cost=None):
    return SimpleNamespace(
        input_tokens=given,
        output_tokens=output,
        input_tokens_cache_read=read,
        input_tokens_cache_write=None,
        reasoning_tokens=None,
        total_cost=cost,
    )


def reader(roles=None):
    header = SimpleNamespace(
        eval=SimpleNamespace(
            created="2026-08-01T10:00:00", model="openai/gpt-5.5", model_roles=roles
        )
    )
    return _UsageReader(header)


def test_roles_are_taken_out_of_their_model():
    sample = SimpleNamespace(
        model_usage={"openai/gpt-5.5": tokens(1000, 100), "openai/gpt-5-mini": tokens(400, 40)},
        role_usage={"checker": tokens(400, 40), "critic": tokens(300, 20)},
        turn_count=3,
    )
    roles = {
        "checker": SimpleNamespace(model="openai/gpt-5-mini"),
        "critic": [SimpleNamespace(model="openai/gpt-5.5")],
    }
    found = {use.role: use for use in reader(roles).usage(sample)}
    assert {role: (u.model, u.input_tokens, u.output_tokens) for role, u in found.items()} == {
        "checker": ("openai/gpt-5-mini", 400, 40),
        "critic": ("openai/gpt-5.5", 300, 20),
        "guard": ("openai/gpt-5.5", 700, 80),
    }
    assert all(use.price > 0 for use in found.values())


def test_a_server_that_counts_nothing_has_not_said_zero():
    sample = SimpleNamespace(
        model_usage={"openai/gpt-5.5": tokens(0, 0)}, role_usage={}, turn_count=1
    )
    (use,) = reader().usage(sample)
    assert (use.calls, use.input_tokens, use.output_tokens, use.price) == (1, None, None, None)


def test_a_recorded_price_counts_before_the_list():
    sample = SimpleNamespace(
        model_usage={"openai/gpt-5.5": tokens(10, 10, cost=0.25)}, role_usage={}, turn_count=1
    )
    assert reader().usage(sample)[0].price == 0.25


def counts(given, output, read=0, written=0):
    return {
        "input_tokens": given,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }


def test_many_small_calls_are_not_priced_as_one_large_call():
    one = price_of_calls("openai/gpt-5.5", counts(1000, 100), 1, "2026-08-01")
    many = price_of_calls("openai/gpt-5.5", counts(1_000_000, 100_000), 1000, "2026-08-01")
    large = price_of_calls("openai/gpt-5.5", counts(1_000_000, 100_000), 1, "2026-08-01")
    assert many == pytest.approx(1000 * one)
    assert large > many  # the list has a higher price for long prompts


def test_a_sample_of_many_calls_is_priced_call_by_call():
    sample = SimpleNamespace(
        model_usage={"openai/gpt-5.5": tokens(1_000_000, 100_000)}, role_usage={}, turn_count=1000
    )
    (use,) = reader().usage(sample)
    one = price_of_calls("openai/gpt-5.5", counts(1000, 100), 1, "2026-08-01")
    assert use.price == pytest.approx(1000 * one)


def test_cached_tokens_cost_less_and_unknown_models_nothing_known():
    plain = price_of_calls("openai/gpt-5.5", counts(10_000, 100), 1, "2026-08-01")
    cached = price_of_calls("openai/gpt-5.5", counts(1000, 100, read=9000), 1, "2026-08-01")
    assert 0 < cached < plain
    assert price_of_calls("openai-api/local/x", counts(10, 10), 1, "2026-08-01") is None


def test_cost_table(runs):
    rows = cost(runs).set_index("run")
    assert rows.loc["lexical", "price_per_case"] == 0.0
    row = rows.loc["mockllm/model · per-rule"]
    assert row.isna()["price"]
    assert row.isna()["price_date"]
    assert row["rmr_lower_bound"] >= 0


def test_the_error_of_a_sample_is_one_line_without_secrets(monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "key-without-a-known-form")
    sample = SimpleNamespace(scores=None, error="Failed:\n key-without-a-known-form " + "x" * 600)
    note = _score(sample)["note"]
    assert note.startswith("Failed: [secret removed] xxx")
    assert len(note) == 501


def scored_again(log, path, *options):
    """The log, read again by Inspect's own command into another file."""
    command = (
        *(Path(sys.executable).with_name("inspect"), "score", log),
        *("--scorer", "safepyramid/rule_set", "--action", "append", "--output-file", path),
    )
    done = subprocess.run(
        [*map(str, command), *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(read_log(path))[1:]


@pytest.mark.parametrize("name", ["policy", "rule", "lexical"])
def test_a_log_is_read_again_as_its_run_read_it(logs, tmp_path, name):
    before = list(read_log(logs[name]))[1:]
    assert scored_again(logs[name], tmp_path / "again.eval") == before


def test_of_several_scores_the_newest_counts(logs, tmp_path):
    lines = scored_again(logs["policy"], tmp_path / "other.eval", "-S", "guard=llama-guard")
    assert {line["state"] for line in lines} == {"unparsed"}


def test_options_of_no_guard_are_refused():
    with pytest.raises(GuardError, match="-S guard=NAME"):
        rule_set(structured=True)


def test_a_header_says_what_data_the_run_was_made_on(logs):
    header = next(read_log(logs["lexical"]))
    assert header["dataset"] == "sample"
    assert header["selection"] == {"level": None, "domain": None, "limit": CASES}
