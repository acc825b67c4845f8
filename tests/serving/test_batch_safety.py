"""Batch files keep what was paid for, and say what is wrong in one line."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_cases import CASES
from wires import RULE_ONE

from safepyramid.answers.parse import answer_from_reply
from safepyramid.batch.files import RUN_SUFFIX, read_run, write_batch
from safepyramid.batch.replies import read_replies, to_reply
from safepyramid.batch.results import read_batch
from safepyramid.batch.write import Batch, BatchRun, open_batch, requests, split_id
from safepyramid.cli.main import main
from safepyramid.errors import DataError, RunError
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt, rule_questions
from safepyramid.schema import Answer, Reply, State
from servers import completion

pytest_plugins = ["evaluating"]

PAGE = Path(__file__).parents[2] / "docs" / "large-runs.md"


def result(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}


def written(path: Path, lines: list[Any], end: str = "\n") -> Path:
    path.write_text("\n".join(map(json.dumps, lines)) + end, encoding="utf-8")
    return path


@pytest.fixture
def batch(dataset: str) -> Batch:
    return open_batch(BatchRun("org/model", dataset=dataset))


@pytest.fixture
def command(dataset: str) -> Callable[..., Result]:
    def run(name: str, *args: str) -> Result:
        common = ("--model", "org/model", "--dataset", dataset) if name == "write" else ()
        return CliRunner().invoke(main, ["batch", name, *common, *args])

    return run


def said(found: Result) -> str:
    """The one line of an error that was foreseen."""
    assert found.exit_code == 1, found.output
    assert isinstance(found.exception, SystemExit)
    assert found.output.count("\n") == 1
    return found.output


# --- Files that are there ------------------------------------------------------------------------


def test_predictions_never_replace_replies(tmp_path: Path, command: Callable[..., Result]) -> None:
    path, run = tmp_path / "results.jsonl", tmp_path / f"q.jsonl{RUN_SUFFIX}"
    assert command("write", "-o", str(tmp_path / "q.jsonl")).exit_code == 0
    lines = [result(case.id, completion(RULE_ONE)) for case in CASES]
    before = written(path, lines).read_bytes()
    assert command("read", str(run), str(path)).exit_code == 0
    assert (tmp_path / "q.predictions.jsonl").exists()
    (tmp_path / "link.jsonl").symlink_to(path)
    for output in (path, run, tmp_path / "q.jsonl", tmp_path / "link.jsonl"):
        assert "one of the files that are read" in said(
            command("read", str(run), str(path), "-o", str(output))
        )
    assert path.read_bytes() == before
    assert "is a folder" in said(command("read", str(run), str(path), "-o", str(tmp_path)))


def test_requests_are_replaced_by_force_only(
    tmp_path: Path, batch: Batch, command: Callable[..., Result]
) -> None:
    path = tmp_path / "q.jsonl"
    write_batch(path, batch, rule_questions, max_requests=1)
    other = written(tmp_path / "q-2024.jsonl", [result("x", completion("y"))])
    with pytest.raises(RunError, match=r"q-001.jsonl exists"):
        write_batch(path, batch, rule_questions)
    write_batch(path, batch, rule_questions, force=True)
    assert {p.name for p in tmp_path.glob("q*")} == {"q.jsonl", "q.jsonl.run.json", other.name}
    done = written(tmp_path / "done.jsonl", [result(c.id, completion(RULE_ONE)) for c in CASES])
    again = ("write", "-o", str(path), "--without", str(done))
    assert "exists: choose another name" in said(command(*again))
    output = command(*again, "--force").output
    assert output.startswith("0 requests in no file\n2 left out")
    assert "safepyramid batch read" in output
    assert not path.exists()
    assert "holds no requests" in said(command("write", "-o", str(done), "--force"))
    assert "holds no requests" in said(command("write", "-o", str(other), "--force"))


def test_part_name_that_holds_replies(tmp_path: Path, batch: Batch) -> None:
    kept = written(tmp_path / "q-002.jsonl", [result("x", completion("y"))])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunError, match=r"q-002.jsonl holds no requests"):
        write_batch(tmp_path / "q.jsonl", batch, rule_questions, max_requests=1, force=True)
    assert sorted(tmp_path.iterdir()) == before
    assert b"custom_id" in kept.read_bytes()


def test_results_of_another_run_are_not_taken_out(
    tmp_path: Path, command: Callable[..., Result]
) -> None:
    done = written(tmp_path / "d.jsonl", [result("frau-001-l1_r1", completion("x"))])
    output = tmp_path / "q.jsonl"
    text = said(command("write", "-o", str(output), "--without", str(done)))
    assert "1 results that this run does not ask for: frau-001-l1_r1" in text
    assert not output.exists()


def test_outputs_and_sizes_that_cannot_be(tmp_path: Path, command: Callable[..., Result]) -> None:
    assert "is a folder" in said(command("write", "-o", "."))
    for size in ("nan", "inf"):
        found = command("write", "-o", str(tmp_path / "q.jsonl"), "--max-mb", size)
        assert found.exit_code == 2
        assert "is no size" in found.output
    small = command("write", "-o", str(tmp_path / "q.jsonl"), "--max-mb", "0.001")
    assert "request frau-001-l1 has" in said(small)
    assert not list(tmp_path.glob("*q*"))


@pytest.mark.parametrize(
    "wrong",
    [{"limit": "2"}, {"options": []}, {"level": "L1"}, {"config": {"max_tokens": "9"}}],
    ids=lambda given: next(iter(given)),
)
def test_run_file_with_a_wrong_type(tmp_path: Path, batch: Batch, wrong: dict[str, Any]) -> None:
    path = tmp_path / f"q.jsonl{RUN_SUFFIX}"
    write_batch(tmp_path / "q.jsonl", batch, rule_questions)
    given = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**given, **wrong}), encoding="utf-8")
    with pytest.raises(DataError, match=rf"is no run file \({next(iter(wrong))}") as found:
        read_run(path)
    assert "\n" not in str(found.value)


# --- Lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["broken\n", "broken", '{"custom_id": "x",\n', "3", "[1]"])
def test_only_a_cut_line_is_forgiven(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="line 1 is no JSON object"):
        list(read_replies(path, []))


def test_list_and_byte_order_mark(tmp_path: Path) -> None:
    lines = [result(name, completion(name)) for name in "ab"]
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(lines), encoding="utf-8-sig")
    assert [reply.text for _, reply in read_replies(path, [])] == ["a", "b"]


@pytest.mark.parametrize("name", ["x_r07", "x_r\u0663", "x_r" + "9" * 5000])
def test_odd_ids_name_no_rule(name: str) -> None:
    assert split_id(name, "per_rule") == (name, None)


def test_refusal_is_marked() -> None:
    assert to_reply(result("x", completion(None, refusal="No."))) == Reply(
        "No.", output_tokens=20, reasoning_tokens=0, refused=True
    )
    assert not to_reply(result("x", completion("No.", refusal=""))).refused


def test_only_a_known_stop_is_a_good_end() -> None:
    def read(finish: Any) -> Answer:
        body = completion(f"So far: {RULE_ONE}")
        body["choices"][0]["finish_reason"] = finish
        return answer_from_reply(to_reply(result("x", body)), {1})

    assert read("abort").state is State.UNPARSED
    assert "abort" in read("abort").note
    assert [read(finish).state for finish in (None, "stop", "eos_token")] == [State.ANSWERED] * 3


def test_run_s_template_arguments_stand_beside_the_prompt_s() -> None:
    prompt = Prompt((Message("user", "x"),), template_args={"policy": "y"})
    extra = {"top_k": 1, "chat_template_kwargs": {"think": False, "policy": "z"}}
    batch = Batch(BatchRun("m"), _guard(prompt), CASES[:1], {"extra_body": extra})
    body = next(requests(batch, rule_questions))["body"]
    assert body["chat_template_kwargs"] == {"think": False, "policy": "y"}
    assert body["top_k"] == 1


NAN = float("nan")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(("logprobs", value) for value in (None, 3, {"content": [{"token": "a"}]}, {"tokens": 1})),
        *(("usage", value) for value in (None, "many", [1], {"completion_tokens": "x"})),
    ],
)
def test_optional_parts_spoil_no_answer(place: str, value: Any) -> None:
    body = completion(RULE_ONE)
    (body if place == "usage" else body["choices"][0])[place] = value
    reply = to_reply(result("x", body))
    assert (reply.text, reply.error, reply.logprobs) == (RULE_ONE, "", ())


@pytest.mark.parametrize(
    "more",
    [
        {"num_generated_tokens": NAN, "__inference_error__": NAN, "finish_reason": NAN},
        {"num_generated_tokens": "?", "logprobs": [None]},
    ],
)
def test_gaps_of_tables_spoil_no_row(more: dict[str, Any]) -> None:
    reply = to_reply({"custom_id": "x", "generated_text": RULE_ONE, **more}, max_tokens=9)
    assert reply == Reply(RULE_ONE, stop_reason="unknown")


# --- Raw prompts and the page's script -----------------------------------------------------------


def _guard(prompt: Prompt) -> Guard:
    read = PolicyAdapter(lambda case: prompt, lambda reply, case: answer_from_reply(reply, {1}))
    return Guard("g", per_policy=read)


def test_raw_prompts_have_the_live_limit(tmp_path: Path) -> None:
    guard = _guard(Prompt((Message("user", "<s>x"),), raw=True))
    batch = Batch(BatchRun("m"), guard, CASES[:1], {})
    (request,) = requests(batch, rule_questions)
    assert request["body"]["max_tokens"] == 2048
    row = {"custom_id": CASES[0].id, "generated_text": "thin", "num_generated_tokens": 2048}
    (prediction,), _ = read_batch(batch, rule_questions, [written(tmp_path / "r", [row])])
    assert prediction.state is State.TRUNCATED


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's Ray script defines, with Ray and the tokenizer left out."""

    class Anything:
        def __getattr__(self, name: str) -> Any:
            return Anything()

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return Anything()

    def render(messages: list[dict[str, str]], **given: Any) -> tuple[Any, ...]:
        return (messages, given)

    tokenizer = SimpleNamespace(apply_chat_template=render)
    auto = SimpleNamespace(from_pretrained=lambda name: tokenizer)
    for name in ("ray", "ray.data", "ray.data.llm"):
        monkeypatch.setitem(sys.modules, name, Anything())
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=auto))
    monkeypatch.setattr(sys, "argv", ["answer.py", "requests.jsonl", "results"])
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names


def test_script_of_the_page_passes_everything_on(script: dict[str, Any]) -> None:
    sampling = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "seed": 1}
    extra = {"top_k": 20, "min_p": 0, "repetition_penalty": 1.2}
    logprobs = {"logprobs": True, "top_logprobs": 20}
    prompt = Prompt((Message("user", "x"),), template_args={"think": True})
    config = {**sampling, **logprobs, "reasoning_effort": "high", "extra_body": extra}

    def ask(prompt: Prompt, config: dict[str, Any]) -> Any:
        batch = Batch(BatchRun("m"), _guard(prompt), CASES[:1], config)
        return script["ask"]({"text": json.dumps(next(requests(batch, rule_questions)))})

    row = ask(prompt, config)
    assert row["sampling_params"] == {**sampling, **extra, "logprobs": 20}
    messages, given = row["prompt"]
    assert messages == [{"role": "user", "content": "x"}]
    assert given == {
        **{"tokenize": False, "add_generation_prompt": True},
        **{"think": True, "reasoning_effort": "high"},
    }
    assert ask(Prompt(prompt.messages, raw=True), sampling)["prompt"] == "x"
    with pytest.raises(AssertionError, match="not passed on: response_format"):
        ask(Prompt(prompt.messages, schema={"type": "object"}), sampling)
    with pytest.raises(AssertionError, match="--max-tokens"):
        ask(prompt, {})
