"""Requests to files and results from files, against what a live run makes of the same answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from small_cases import CASES, Evaluate
from wires import RULE_ONE, raw_completion

from safepyramid.batch.files import RUN_SUFFIX, read_run, write_batch
from safepyramid.batch.replies import read_replies, to_reply
from safepyramid.batch.results import answered_ids, read_batch, write_predictions
from safepyramid.batch.write import Batch, BatchRun, custom_id, open_batch, requests, split_id
from safepyramid.errors import DataError, RunError
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt, rule_questions
from safepyramid.results.read import read_results
from safepyramid.results.score import score_files
from safepyramid.schema import Answer, Case, State
from servers import Response, completion, serving

pytest_plugins = ["evaluating"]

Lines = list[dict[str, Any]]


def opened(dataset: str, protocol: str = "per_policy", **given: Any) -> Batch:
    return open_batch(BatchRun("org/model", protocol, dataset=dataset, **given))  # type: ignore[arg-type]


def asked(batch: Batch) -> Lines:
    return list(requests(batch, rule_questions))


def result(name: str, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
    return {"custom_id": name, "response": {"status_code": status, "body": body}, "error": None}


def written(path: Path, lines: Lines) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def states(batch: Batch, *paths: Path) -> dict[str, tuple[State, list[int] | None]]:
    predictions, _ = read_batch(batch, rule_questions, paths)
    return {
        p.case_id: (p.state, None if p.violated is None else sorted(p.violated))
        for p in predictions
    }


# --- Requests ------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.integers(0, 10**6))
def test_ids_are_reversible(case_id: str, rule: int) -> None:
    assert split_id(custom_id(case_id, rule), "per_rule") == (case_id, rule)
    assert split_id(custom_id(case_id), "per_policy") == (case_id, None)


def test_a_request_is_what_a_live_run_sends(
    dataset: str, evaluate: Evaluate, monkeypatch: Any
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "k")
    settings = {"temperature": 0.5, "max_tokens": 77, "seed": 3, "stop_seqs": ["END"]}
    for protocol in ("per_policy", "per_rule"):
        batch = opened(dataset, protocol, config=settings, limit=1)
        with serving(lambda call: RULE_ONE) as server:
            evaluate("openai-api/own/org/model", f"{server.address}/v1", protocol, **settings)
        live = {call.text: _settings(call.body) for call in server.calls}
        ours = {_text(line["body"]): _settings(line["body"]) for line in asked(batch)}
        assert ours == live
        assert {line["url"] for line in asked(batch)} == {server.calls[0].path}


def _text(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def _settings(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "messages"}


def test_ids_are_unique_and_name_case_and_rule(dataset: str) -> None:
    names = [line["custom_id"] for line in asked(opened(dataset, "per_rule"))]
    assert names == [f"frau-00{case}-l1_r{rule}" for case in (1, 2) for rule in (1, 2, 3)]


def _opened(guard: Guard, config: dict[str, Any]) -> Batch:
    return Batch(BatchRun("gpt-5.5"), guard, CASES, config)


def _adapter(prompt: Prompt) -> PolicyAdapter:
    return PolicyAdapter(lambda case: prompt, lambda reply, case: Answer(State.UNPARSED))


def test_what_belongs_to_a_prompt_alone() -> None:
    schema = {"type": "object"}
    messages = (Message("user", ("shared ", "own")),)
    prompt = Prompt(messages, template_args={"thinking": True}, schema=schema)
    guard = Guard("g", per_policy=_adapter(prompt))
    body = next(
        requests(_opened(guard, {"max_tokens": 9, "extra_body": {"top_k": 1}}), rule_questions)
    )["body"]
    assert body == {
        "model": "gpt-5.5",
        "messages": [{"role": "user", "content": "shared own"}],
        "chat_template_kwargs": {"thinking": True},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        },
        "top_k": 1,
        "max_completion_tokens": 9,
    }


def test_raw_prompts_go_to_completions() -> None:
    guard = Guard("g", per_policy=_adapter(Prompt((Message("user", "<s>x"),), raw=True)))
    config = {"logprobs": True, "top_logprobs": 20, "temperature": None, "max_retries": 3}
    request = next(requests(_opened(guard, config), rule_questions))
    assert request["url"] == "/v1/completions"
    assert request["body"] == {
        "model": "gpt-5.5",
        "prompt": "<s>x",
        "max_tokens": 2048,
        "logprobs": 20,
    }


def test_answers_in_a_form(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, structured=True, limit=1)
    (request,) = asked(batch)
    form = request["body"]["response_format"]["json_schema"]["schema"]
    said = {key: key == "r1" for key in form["required"]}
    path = written(tmp_path / "r.jsonl", [result("frau-001-l1", completion(json.dumps(said)))])
    assert states(batch, path) == {"frau-001-l1": (State.ANSWERED, [1])}


def test_setting_without_a_place(dataset: str) -> None:
    with pytest.raises(RunError, match="setting 'best_of' has no place"):
        asked(opened(dataset, config={"best_of": 2}))


def test_guard_without_a_model(dataset: str) -> None:
    with pytest.raises(RunError, match="calls no model"):
        opened(dataset, guard="none")


def test_files_are_split_and_whole(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, "per_rule")
    count, files = write_batch(tmp_path / "r.jsonl", batch, rule_questions, max_requests=4)
    assert (count, [f.name for f in files]) == (6, ["r-001.jsonl", "r-002.jsonl"])
    lines = [
        json.loads(line)
        for f in files
        for line in f.read_text(encoding="utf-8").split("\n")
        if line
    ]
    assert lines == asked(batch)
    largest = max(len(json.dumps(line)) + 1 for line in lines)
    _, files = write_batch(tmp_path / "s.jsonl", batch, rule_questions, max_bytes=2 * largest)
    assert len(files) >= 3
    assert all(f.stat().st_size <= 2 * largest for f in files)
    assert not list(tmp_path.glob(".*"))


def test_failure_leaves_no_half_file(dataset: str, tmp_path: Path) -> None:
    def fails(case: Case) -> Any:
        if case is batch.cases[1]:
            raise RunError("planted")
        return rule_questions(case)

    batch = opened(dataset, "per_rule")
    with pytest.raises(RunError, match="planted"):
        write_batch(tmp_path / "r.jsonl", batch, fails)
    assert [path.name for path in tmp_path.iterdir()] == ["cases.json"]


# --- Results -------------------------------------------------------------------------------------

BODIES: list[Any] = [
    completion(RULE_ONE),
    completion(None, refusal="I cannot help with that."),
    completion("", finish="content_filter"),
    completion(RULE_ONE[:30], finish="length"),
    completion(None, reasoning=RULE_ONE),
    completion("", output_tokens=100, reasoning_tokens=99),
    completion("Rule 1, I think."),
    Response(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
    Response(400, {"error": {"code": "content_filter", "message": "no"}}),
    Response(500, {"error": {"message": "oops"}}),
]


@pytest.mark.parametrize("answer", BODIES, ids=lambda value: "")
def test_same_state_as_a_live_run(
    dataset: str, tmp_path: Path, evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "k")
    with serving(lambda call: answer) as server:
        live = evaluate("openai-api/own/org/model", f"{server.address}/v1")
    status, body = (answer.status, answer.body) if isinstance(answer, Response) else (200, answer)
    batch = opened(dataset, limit=1)
    path = written(tmp_path / "results.jsonl", [result("frau-001-l1", body, status)])
    ((_, prediction),) = live.items()
    (ours,), _ = read_batch(batch, rule_questions, [path])
    assert (ours.state, ours.violated, ours.strict) == (
        prediction.state,
        prediction.violated,
        prediction.strict,
    )


def judge(name: str) -> str:
    return json.dumps({"verdict": "violated" if name.endswith("_r1") else "not_violated"})


def test_per_rule_results_merge(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, "per_rule")
    names = [line["custom_id"] for line in asked(batch)]
    lines = [result(name, completion(judge(name))) for name in names]
    whole = written(tmp_path / "whole.jsonl", lines[::-1])
    expected = {case.id: (State.ANSWERED, [1]) for case in CASES}
    assert states(batch, whole) == expected
    parts = [written(tmp_path / "a.jsonl", lines[:2]), written(tmp_path / "b.jsonl", lines[2:])]
    assert states(batch, *parts) == expected
    assert states(batch, parts[0]) == {case.id: (State.MISSING, None) for case in CASES}
    assert answered_ids(parts[:1]) == set(names[:2])


def test_one_failed_judgment_makes_the_case_an_error(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, "per_rule", limit=1)
    names = [line["custom_id"] for line in asked(batch)]
    lines = [result(name, completion(judge(name))) for name in names[:-1]]
    expired = {"custom_id": names[-1], "response": None, "error": {"code": "batch_expired"}}
    path = written(tmp_path / "r.jsonl", [*lines, expired])
    (prediction,), _ = read_batch(batch, rule_questions, [path])
    assert prediction.state is State.ERROR
    assert prediction.note.startswith("1 of 3 judgments failed, Rule 3 with: ")
    assert "batch_expired" in prediction.note


@pytest.mark.parametrize("order", [1, -1])
def test_result_beats_error_with_the_same_id(dataset: str, tmp_path: Path, order: int) -> None:
    batch = opened(dataset, limit=1)
    lines = [
        result("frau-001-l1", completion(RULE_ONE)),
        result("frau-001-l1", {"error": "oops"}, 500),
    ]
    path = written(tmp_path / "r.jsonl", lines[::order])
    predictions, notes = read_batch(batch, rule_questions, [path])
    assert predictions[0].state is State.ANSWERED
    assert notes == ["1 ids came twice: frau-001-l1"]


def test_unknown_ids_are_named(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, "per_rule", limit=1)
    names = ["frau-001-l1_r4", "frau-001-l1", "frau-009-l1_r1", "other"]
    path = written(tmp_path / "r.jsonl", [result(name, completion("x")) for name in names])
    with pytest.raises(
        DataError, match=r"4 results .*: frau-001-l1_r4, frau-001-l1, frau-009-l1_r1 and 1 more"
    ):
        read_batch(batch, rule_questions, [path])


def test_torn_last_line(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset, limit=1)
    path = written(tmp_path / "r.jsonl", [result("frau-001-l1", completion(RULE_ONE))])
    with path.open("ab") as file:
        file.write('{"custom_id": "frau-002-l1", "é'.encode()[:-1])
    predictions, notes = read_batch(batch, rule_questions, [path])
    assert predictions[0].state is State.ANSWERED
    assert notes == [f"{path} line 2: the last line is cut and was left out"]
    with path.open("ab") as file:
        file.write(b"\n{}\n")
    with pytest.raises(DataError, match="line 2 is no JSON object"):
        read_batch(batch, rule_questions, [path])


@pytest.mark.parametrize("line", [{}, {"custom_id": "x"}, {"custom_id": 3, "response": {}}])
def test_line_that_is_no_result(tmp_path: Path, line: dict[str, Any]) -> None:
    path = written(tmp_path / "r.jsonl", [line])
    with pytest.raises(DataError, match="line 1 is no result"):
        list(read_replies(path, []))


def test_line_separators_in_a_text_split_nothing(tmp_path: Path) -> None:
    line = json.dumps(result("a", completion("one\u2028two\x85three")), ensure_ascii=False)
    path = tmp_path / "r.jsonl"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8", newline="\n")
    assert [reply.text for _, reply in read_replies(path, [])] == ["one\u2028two\x85three"] * 2


# --- Forms of result lines -----------------------------------------------------------------------


def test_bare_body_of_older_vllm() -> None:
    reply = to_reply({"custom_id": "x", "response": completion("hi", reasoning="so")})
    assert (reply.text, reply.reasoning, reply.stop_reason, reply.output_tokens) == (
        "hi",
        "so",
        "stop",
        20,
    )


def test_rows_of_ray_data() -> None:
    row = {
        "custom_id": "x",
        "generated_text": "hi",
        "num_generated_tokens": 7,
        "__inference_error__": None,
    }
    assert to_reply(row).stop_reason == "unknown"  # rows do not say
    assert to_reply(row, max_tokens=7).stop_reason == "max_tokens"
    assert to_reply({**row, "finish_reason": "stop"}, max_tokens=7).stop_reason == "stop"
    token = {"4": {"logprob": -0.1, "rank": 1, "decoded_token": "hi"}, "9": None}
    assert to_reply({**row, "logprobs": [token]}).logprobs == ({"hi": -0.1},)
    failed = {"custom_id": "x", "__inference_error__": "ValueError: planted"}
    assert to_reply(failed).error == "ValueError: planted"
    too_long = (
        "ValueError: The prompt (9000 tokens) is longer than the maximum model length of 8192."
    )
    assert (
        to_reply({"custom_id": "x", "__inference_error__": too_long}).stop_reason == "model_length"
    )


def test_log_probabilities_of_both_endpoints() -> None:
    chat = completion("hi")
    chat["choices"][0]["logprobs"] = {
        "content": [
            {"token": "hi", "logprob": -0.1, "top_logprobs": [{"token": "ho", "logprob": -3}]}
        ]
    }
    expected = ({"hi": -0.1, "ho": -3.0},)
    assert to_reply(result("x", chat)).logprobs == expected
    arrays = {"tokens": ["hi"], "token_logprobs": [-0.1], "top_logprobs": [{"ho": -3}]}
    assert to_reply(result("x", raw_completion("hi", logprobs=arrays))).logprobs == expected


KEYS = (
    *("response", "body", "choices", "message", "content", "error", "code", "usage", "text"),
    *("logprobs", "finish_reason", "completion_tokens", "generated_text", "status_code"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["response", "error", "generated_text", "logprobs"]), values)
)
def test_no_line_raises(line: dict[str, Any]) -> None:
    reply = to_reply(line, max_tokens=10)
    assert isinstance(reply.text, str)
    assert isinstance(reply.stop_reason, str)
    assert reply.stop_reason


# --- The commands --------------------------------------------------------------------------------


@pytest.fixture
def command() -> Callable[..., str]:
    from safepyramid.cli.batch import batch

    def run(*args: str) -> str:
        done = CliRunner().invoke(batch, args, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_write_answer_read_score(dataset: str, tmp_path: Path, command: Callable[..., str]) -> None:
    path = tmp_path / "r.jsonl"
    common = ("--model", "org/model", "--protocol", "per_rule", "--dataset", dataset)
    said = command("write", *common, "--max-tokens", "50", "-o", str(path))
    assert said.startswith(f"6 requests in {path}")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert {line["body"]["max_tokens"] for line in lines} == {50}
    results = [result(line["custom_id"], completion(judge(line["custom_id"]))) for line in lines]
    first = written(tmp_path / "first.jsonl", results[:4])
    said = command("write", *common, "--without", str(first), "-o", str(tmp_path / "rest.jsonl"))
    assert said.startswith("2 requests")
    rest = written(tmp_path / "second.jsonl", results[4:])
    out = tmp_path / "out.jsonl"
    said = command("read", str(path) + RUN_SUFFIX, str(first), str(rest), "-o", str(out))
    assert "2 answered" in said
    found = read_results([out])
    assert found.protocol == "per_rule"
    assert {p.case_id: p.violated for p in found.predictions.values()} == {c.id: {1} for c in CASES}
    assert found.headers[0]["guard"] == "chat"


def test_other_data_than_the_requests_were_made_with(dataset: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_batch(path, opened(dataset), rule_questions)
    run = read_run(str(path) + RUN_SUFFIX)
    assert [case.id for case in open_batch(run).cases] == [case.id for case in CASES]
    content = Path(dataset).read_text(encoding="utf-8")
    Path(dataset).write_text(content.replace("Monday", "Tuesday"), encoding="utf-8")
    with pytest.raises(RunError, match="the data differ from what the requests were made with"):
        open_batch(run)


def test_file_that_is_no_run_file(tmp_path: Path) -> None:
    for content in ("", "[]", '{"protocol": "per_rule"}'):
        path = tmp_path / "x.run.json"
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match="is no run file"):
            read_run(path)


def test_per_policy_results_are_written(dataset: str, tmp_path: Path) -> None:
    batch = opened(dataset)
    path = written(tmp_path / "r.jsonl", [result("frau-001-l1", completion(RULE_ONE))])
    predictions, notes = read_batch(batch, rule_questions, [path])
    assert notes == ["1 of 2 have no result: frau-002-l1"]
    write_predictions(tmp_path / "out.jsonl", batch, predictions)
    found = read_results([tmp_path / "out.jsonl"])
    assert list(found.predictions) == ["frau-001-l1"]
    # scored on what the requests were made with, which the file names
    scored = score_files([tmp_path / "out.jsonl"])["groups"]["ALL"]
    assert (scored["total"], scored["scored"]) == (len(CASES), 1)
