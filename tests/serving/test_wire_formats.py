"""Each wire format, through the provider's own client and a whole evaluation of one case."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai.event import ModelEvent
from inspect_ai.log import read_eval_log
from inspect_ai.model import get_model
from small_cases import CASES, Evaluate
from wires import (
    RAW_GUARD,
    RULE_ONE,
    claude,
    claude_stream,
    gemini,
    gemini_blocked_prompt,
    raw_completion,
    text_block,
    thinking_block,
)

from safepyramid.answers.parse import answer_from_reply
from safepyramid.batch.replies import to_reply
from safepyramid.budget import Budget
from safepyramid.errors import RunError
from safepyramid.guards.base import Guard, Prompt, RuleAdapter, RuleQuestion, rule_questions
from safepyramid.schema import Prediction, State, Verdict
from safepyramid.secrets import REMOVED
from safepyramid.solvers import ask_each, set_budget
from servers import Call, Response, completion, serving

pytest_plugins = ["evaluating"]

CASE = "frau-001-l1"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE", "OWN"):
        monkeypatch.setenv(f"{name}_API_KEY", "key-of-the-test")
    for name in ("COMPLETIONS_API_KEY", "SAFEPYRAMID_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def state_of(prediction: Prediction) -> tuple[State, list[int] | None]:
    violated = prediction.violated
    return prediction.state, None if violated is None else sorted(violated)


ANSWERED = (State.ANSWERED, [1])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (completion(RULE_ONE), ANSWERED),
        (completion('{"violated_rules": []}'), (State.ANSWERED, [])),
        (completion(None, refusal="I cannot help with that."), (State.REFUSED, None)),
        (completion(None, refusal="Kein Kommentar."), (State.REFUSED, None)),
        (completion("", finish="content_filter"), (State.BLOCKED, None)),
        (completion(RULE_ONE[:30], finish="length"), (State.TRUNCATED, None)),
        (completion(None, reasoning=RULE_ONE), ANSWERED),
        (completion(RULE_ONE, reasoning="Rule 1 speaks of dates."), ANSWERED),
        (completion("Rule 1, I think."), (State.UNPARSED, None)),
        (
            Response(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
            (State.TRUNCATED, None),
        ),
        (Response(401, {"error": {"message": "no"}}), (State.ERROR, None)),
    ],
    ids=lambda value: "",
)
def test_openai_chat(evaluate: Evaluate, answer: Any, expected: Any) -> None:
    with serving(lambda call: answer) as server:
        found = evaluate("openai-api/own/some-model", f"{server.address}/v1")
    assert state_of(found[CASE]) == expected
    assert server.calls[0].path == "/v1/chat/completions"
    assert "for certain" in server.calls[0].text


def test_openai_chat_per_rule(evaluate: Evaluate) -> None:
    def judge(call: Call) -> str:
        violated = "the target rule, Rule 1?" in call.text
        return f'{{"verdict": "{"violated" if violated else "not_violated"}"}}'

    with serving(judge) as server:
        found = evaluate("openai-api/own/some-model", f"{server.address}/v1", "per_rule")
    assert state_of(found[CASE]) == ANSWERED
    assert len(server.calls) == 3  # four rules, of which one is a conditional


def test_no_question_is_no_call_and_a_failed_one_keeps_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "key-without-a-known-form"
    monkeypatch.setenv("OTHER_API_KEY", key)

    def fail(question: RuleQuestion) -> Prompt:
        raise RunError(f"refused for {key}")

    guard = Guard("g", per_rule=RuleAdapter(fail, lambda reply, question: Verdict(State.UNPARSED)))
    assert anyio.run(ask_each, guard, []) == ({}, None)
    monkeypatch.setattr("safepyramid.solvers.get_model", lambda: get_model("mockllm/model"))
    replies, _ = anyio.run(ask_each, guard, rule_questions(CASES[0])[:1])
    (reply,) = replies.values()
    assert reply.error == "RunError: refused for [secret removed]"


TALK = f"So far: {RULE_ONE}"


@pytest.mark.parametrize("finish", ["stop", "eos_token", "end_turn", "abort", "repetition", None])
def test_live_and_batch_replies_end_for_the_same_reasons(
    evaluate: Evaluate, tmp_path: Path, finish: Any
) -> None:
    body = completion(TALK, finish=finish)
    line = {"custom_id": "x", "response": {"status_code": 200, "body": body}}
    expected = answer_from_reply(to_reply(line), {1, 2, 3, 4})
    with serving(lambda call: body) as server:
        found = evaluate("openai-api/own/some-model", f"{server.address}/v1")
    assert (found[CASE].state, found[CASE].note) == (expected.state, expected.note)
    assert expected.state is (
        State.UNPARSED if finish in ("abort", "repetition") else State.ANSWERED
    )
    (log,) = (tmp_path / "logs").glob("*.eval")  # the word is in the log, for a later scoring
    with_word = read_eval_log(str(log)).samples[0].output.metadata  # type: ignore[index]
    assert (with_word or {}).get("finish_reasons") == ([finish] if finish else None)


def test_live_raw_reply_that_was_aborted(evaluate: Evaluate, tmp_path: Path) -> None:
    path = tmp_path / "guard.py"
    path.write_text(RAW_GUARD, encoding="utf-8")
    body = raw_completion(TALK, "abort", logprobs=OPENAI_LOGPROBS)
    with serving(lambda call: body) as server:
        args = {"guard": f"{path}:guard"}
        found = evaluate("completions/m", f"{server.address}/v1", task_args=args)
    assert found[CASE].note == "unknown stop reason 'abort'"


BODY_GUARD = """
from safepyramid.answers.parse import answer_from_reply
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt

def ask(case):
    return Prompt((Message("user", case.policy),), template_args={"policy": "P"})

def read(reply, case):
    return answer_from_reply(reply, frozenset(case.rule_types))

guard = Guard("g", per_policy=PolicyAdapter(ask, read, {"extra_body": {"top_k": 20, "min_p": 0}}))
"""


@pytest.mark.parametrize("given", [None, {"top_k": 1, "chat_template_kwargs": {"think": False}}])
def test_further_keys_of_the_run_arrive_with_those_of_guard_and_prompt(
    evaluate: Evaluate, tmp_path: Path, given: Any
) -> None:
    path = tmp_path / "guard.py"
    path.write_text(BODY_GUARD, encoding="utf-8")
    with serving(lambda call: RULE_ONE) as server:
        args = {"guard": f"{path}:guard"}
        evaluate("openai-api/own/m", f"{server.address}/v1", task_args=args, extra_body=given)
    body = server.calls[0].body
    think = {"think": False} if given else {}
    assert body["chat_template_kwargs"] == {**think, "policy": "P"}
    assert (body["top_k"], body["min_p"]) == (1 if given else 20, 0)


SECRET = "planted-secret-of-no-known-form"


@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500])
@pytest.mark.parametrize(
    ("model", "suffix"),
    [
        ("openai-api/own/m", "/v1"),
        ("openai/gpt-5", "/v1"),
        ("openai/gpt-4o", "/v1"),
        ("completions/m", "/v1"),
        ("anthropic/claude-opus-4-6", ""),
        ("google/gemini-3-pro", ""),
    ],
)
def test_a_key_that_a_server_repeats_is_in_no_event_of_the_log(
    evaluate: Evaluate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    suffix: str,
    status: int,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    told = {"message": f"no: Bearer {SECRET} is refused", "code": status, "type": f"{SECRET}"}
    path = tmp_path / "guard.py"
    path.write_text(RAW_GUARD, encoding="utf-8")
    args = {"guard": f"{path}:guard"} if model.startswith("completions") else {}
    with serving(lambda call: Response(status, {"type": "error", "error": told})) as server:
        found = evaluate(model, f"{server.address}{suffix}", task_args=args, max_tokens=4000)
    assert found[CASE].state in (State.ERROR, State.TRUNCATED)
    (log,) = (tmp_path / "logs").glob("*.eval")
    kept = read_eval_log(str(log), resolve_attachments=True)
    assert kept.samples
    events = [event for event in kept.samples[0].events if isinstance(event, ModelEvent)]
    assert events
    assert SECRET not in kept.model_dump_json()
    assert REMOVED in kept.model_dump_json()


def test_what_the_budget_does_not_reach_for_is_missing(evaluate: Evaluate, tmp_path: Path) -> None:
    set_budget(Budget(2.5), lambda usage: 1.0)
    try:
        with serving(lambda call: '{"verdict": "violated"}') as server:
            args = {"limit_cases": 2}
            found = evaluate("openai-api/own/m", f"{server.address}/v1", "per_rule", task_args=args)
    finally:
        set_budget(None)
    assert len(server.calls) == 2  # of the three a case
    assert found == {}  # no case was asked to its end: nothing to show, nothing failed
    (log,) = (tmp_path / "logs").glob("*.eval")
    header = read_eval_log(str(log))
    assert header.samples
    for sample in header.samples:
        assert sample.error is not None  # so that Inspect asks it again
        (score,) = (sample.scores or {}).values()
        assert (score.metadata or {})["state"] == "missing"
        assert "cost limit of $2.5 reached" in (score.metadata or {})["note"]


OPENAI_LOGPROBS = {"tokens": ["{"], "token_logprobs": [-0.1], "top_logprobs": [{"{": -0.1}]}
LLAMA_LOGPROBS = {
    "content": [{"token": "{", "logprob": -0.1, "top_logprobs": [{"token": "[", "logprob": -3.0}]}]
}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (raw_completion(RULE_ONE, logprobs=OPENAI_LOGPROBS), ANSWERED),
        (raw_completion(RULE_ONE, logprobs=LLAMA_LOGPROBS), ANSWERED),
        (
            raw_completion(RULE_ONE[:30], "length", logprobs=OPENAI_LOGPROBS),
            (State.TRUNCATED, None),
        ),
        (
            Response(
                400,
                {
                    "error": {
                        "message": "This model's maximum context length is 4096 tokens.",
                        "code": 400,
                    }
                },
            ),
            (State.TRUNCATED, None),
        ),
        (Response(404, {"error": {"message": "no"}}), (State.ERROR, None)),
    ],
    ids=["openai", "llama.cpp", "length", "context", "no-endpoint"],
)
def test_completions(evaluate: Evaluate, tmp_path: Any, answer: Any, expected: Any) -> None:
    path = tmp_path / "raw_guard.py"
    path.write_text(RAW_GUARD, encoding="utf-8")
    with serving(lambda call: answer) as server:
        found = evaluate(
            "completions/org/model",
            f"{server.address}/v1",
            task_args={"guard": f"{path}:guard"},
        )
    assert state_of(found[CASE]) == expected
    body = server.calls[0].body
    assert server.calls[0].path == "/v1/completions"
    assert body["prompt"].startswith("<|raw|>Turn 1 - User:")
    assert body["prompt"].endswith("for certain.\nAnswer:")
    assert (body["model"], body["max_tokens"], body["logprobs"]) == ("org/model", 50, 5)
    assert server.calls[0].headers["Authorization"] == "Bearer none"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (claude([text_block(RULE_ONE)]), ANSWERED),
        (claude([thinking_block("Dates."), text_block(RULE_ONE)]), ANSWERED),
        (claude([], stop="refusal", output_tokens=1), (State.BLOCKED, None)),
        (claude([text_block(RULE_ONE[:30])], stop="max_tokens"), (State.TRUNCATED, None)),
        (
            claude([thinking_block("Dates.")], stop="max_tokens", output_tokens=64000),
            (State.TRUNCATED, None),
        ),
        (claude([text_block("I'm sorry, but I can't do that.")]), (State.REFUSED, None)),
    ],
    ids=["text", "thinking", "refusal", "cut", "thinking-cut", "words"],
)
@pytest.mark.parametrize("max_tokens", [4000, 64000], ids=["whole", "stream"])
def test_anthropic(evaluate: Evaluate, message: Any, expected: Any, max_tokens: int) -> None:
    pytest.importorskip("anthropic")

    def answer(call: Call) -> Any:
        if call.path.endswith("count_tokens"):  # how Inspect learns what thinking took
            return {"input_tokens": 25}
        return claude_stream(message) if call.body.get("stream") else message

    with serving(answer) as server:
        found = evaluate("anthropic/claude-opus-4-6", server.address, max_tokens=max_tokens)
    assert state_of(found[CASE]) == expected
    (call,) = [call for call in server.calls if call.path == "/v1/messages"]
    assert call.body["max_tokens"] == max_tokens
    # The client refuses calls of such length that do not stream.
    assert bool(call.body.get("stream")) == (max_tokens == 64000)


def test_anthropic_overloaded_once(evaluate: Evaluate) -> None:
    pytest.importorskip("anthropic")

    def answer(call: Call) -> Any:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        if call.attempt == 1:
            return Response(529, error, {"retry-after": "0"})
        return claude([text_block(RULE_ONE)])

    with serving(answer) as server:
        found = evaluate(
            "anthropic/claude-opus-4-6", server.address, max_tokens=4000, max_retries=2
        )
    assert state_of(found[CASE]) == ANSWERED
    assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (gemini([{"text": RULE_ONE}]), ANSWERED),
        (gemini([{"text": "Dates.", "thought": True}, {"text": RULE_ONE}], thoughts=9), ANSWERED),
        (gemini(None, finish="MAX_TOKENS", thoughts=64000), (State.TRUNCATED, None)),
        (gemini(None, finish="SAFETY"), (State.BLOCKED, None)),
        (gemini_blocked_prompt(), (State.BLOCKED, None)),
        (gemini([{"text": RULE_ONE[:30]}], finish="MAX_TOKENS"), (State.TRUNCATED, None)),
    ],
    ids=["text", "thoughts", "thoughts-cut", "safety", "blocked-prompt", "cut"],
)
def test_gemini(evaluate: Evaluate, answer: Any, expected: Any) -> None:
    pytest.importorskip("google.genai")
    with serving(lambda call: answer) as server:
        found = evaluate("google/gemini-3-pro", server.address)
    assert state_of(found[CASE]) == expected
    assert server.calls[-1].path.endswith("models/gemini-3-pro:generateContent")
