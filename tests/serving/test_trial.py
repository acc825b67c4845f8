"""The trial call before a run, against servers that are sound and servers that are not."""

import functools
import socket
from typing import Any

import anyio
import pytest
from small_cases import CASES
from wires import RULE_ONE

from safepyramid.errors import RunError
from safepyramid.guards import load_guard
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt
from safepyramid.providers.templates import Tokenized, is_private
from safepyramid.runs.trial import trial
from safepyramid.schema import Protocol
from safepyramid.secrets import REMOVED, scrubbed
from servers import Call, Response, completion, serving

KEY = "planted-key-0123456789"
NOT_CHECKABLE = "first token: not checkable here (only with llama.cpp and vLLM servers)"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_API_KEY", KEY)


def tried(
    address: str,
    protocol: Protocol = "per_policy",
    guard: Guard | None = None,
    model: str = "openai-api/own/m",
    **config: Any,
) -> list[str]:
    from inspect_ai.model import get_model

    import safepyramid.providers.entries  # noqa: F401

    async def run() -> list[str]:
        async with get_model(model, base_url=address, memoize=False) as asked:
            chosen = guard or load_guard("chat")
            return await trial(asked, chosen, protocol, CASES, {"max_retries": 0, **config})

    return anyio.run(run)


def answers(call: Call) -> bool:
    return call.path.endswith("completions")


def test_sound_run_says_little() -> None:
    with serving(lambda call: RULE_ONE) as server:
        assert tried(server.address) == [NOT_CHECKABLE]
    (call,) = filter(answers, server.calls)
    assert "Please." in call.text  # the longer of the two cases


def test_per_rule_asks_one_question() -> None:
    with serving(lambda call: '{"verdict": "violated"}') as server:
        assert tried(server.address, "per_rule") == [NOT_CHECKABLE]
    assert len(list(filter(answers, server.calls))) == 1


def test_guard_without_a_model_needs_no_trial() -> None:
    with serving(lambda call: RULE_ONE) as server:
        assert tried(server.address, guard=load_guard("none")) == []
    assert server.calls == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Response(401, {"error": {"message": f"wrong key {KEY}"}}), "the key is refused"),
        (Response(403, {"error": {"message": "no"}}), "the key has no access"),
        (Response(404, {"error": {"message": "no such model"}}), "the model or the address"),
        (Response(429, {"error": {"message": "slow down"}}), "the rate limit or the quota"),
        (Response(500, {"error": {"message": "oops"}}), "the trial call failed"),
        (Response(hang_up=True), "nothing answers"),
        (completion(""), "answers frau-002-l1 with nothing"),
        (completion(None), "answers frau-002-l1 with nothing"),
    ],
)
def test_worthless_runs_are_refused(answer: Any, message: str) -> None:
    with serving(lambda call: answer) as server, pytest.raises(RunError, match=message) as error:
        tried(server.address)
    assert "\n" not in str(error.value)
    assert KEY not in str(error.value)


def test_no_server_at_all() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(RunError, match="nothing answers; is the server up"):
            tried(address)


def test_unreadable_answer_is_shown_without_secrets() -> None:
    reply = f"My key is {KEY}, Bearer abcdef0123456789, sk-abcdef0123456789.\n" + "Well. " * 100
    with serving(lambda call: reply) as server:
        _, note = tried(server.address)
    assert note.startswith("frau-002-l1 ended unparsed")
    assert f"My key is {REMOVED}, Bearer {REMOVED}, {REMOVED}. Well." in note
    assert len(note) < 350


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (completion(None, reasoning=RULE_ONE), "the answer stood in the thinking field"),
        (completion("I'm sorry, I can't help with that."), "ended refused (declined in words)"),
        (completion(RULE_ONE[:20], finish="length"), "ended truncated (cut by the output limit"),
        (completion("", finish="content_filter"), "ended blocked"),
    ],
)
def test_what_stands_out_is_noted(answer: Any, note: str) -> None:
    with serving(lambda call: answer) as server:
        notes = tried(server.address)
    assert note in notes[-1]


TOO_LONG = Response(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})


def test_longest_case_does_not_fit() -> None:
    with serving(lambda call: TOO_LONG if "Please." in call.text else RULE_ONE) as server:
        notes = tried(server.address)
    assert "the longest prompt, frau-002-l1, does not fit: about" in notes[0]


def test_no_case_fits() -> None:
    with serving(lambda call: TOO_LONG) as server, pytest.raises(RunError, match="does not fit"):
        tried(server.address)


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        (completion(RULE_ONE), True),
        (completion(RULE_ONE, reasoning_tokens=9), False),
        (completion(RULE_ONE, reasoning="Dates."), False),
    ],
)
def test_reasoning_that_was_asked_for(answer: Any, noted: bool) -> None:
    with serving(lambda call: answer) as server:
        notes = tried(server.address, reasoning_effort="high")
    assert any("reasoning was asked for" in note for note in notes) == noted
    with serving(lambda call: answer) as server:
        assert tried(server.address) == [NOT_CHECKABLE]


def test_first_token_doubled_as_vllm_tells() -> None:
    def answer(call: Call) -> Any:
        if call.path == "/tokenize":
            assert call.body["model"] == "m"
            if "messages" not in call.body:
                return Response(400, {})
            return {"tokens": [1, 1, 7], "count": 3, "max_model_len": 4096}
        return RULE_ONE if answers(call) else Response(404, {})

    with serving(answer) as server:
        (note,) = tried(f"{server.address}/v1")
        assert "begins with the token 1 twice" in note
        assert len(tried(f"{server.address}/v1", max_tokens=5000)) == 2  # leaves too little room


def test_first_token_as_llama_cpp_tells() -> None:
    def answer(call: Call) -> Any:
        if call.path == "/apply-template":
            return {"prompt": "<s>[INST]"}
        if call.path == "/tokenize":
            assert call.body == {"content": "<s>[INST]", "add_special": True, "parse_special": True}
            return {"tokens": [1, 5, 7]}
        return RULE_ONE

    with serving(answer) as server:
        assert tried(f"{server.address}/v1") == []


def test_raw_guard_and_chat_guard_need_their_routes() -> None:
    ask = functools.partial(Prompt, (Message("user", "<s>Rules"),), True)
    parse = load_guard("chat").per_policy
    assert parse is not None
    raw = Guard("raw", per_policy=PolicyAdapter(lambda case: ask(), parse.parse))
    with serving(lambda call: RULE_ONE) as server:
        with pytest.raises(RunError, match="give --model completions/m with --model-base-url"):
            tried(server.address, guard=raw)
        with pytest.raises(RunError, match="sends raw texts only"):
            tried(f"{server.address}/v1", model="completions/m")
    assert server.calls == []


def test_scrubbed_takes_only_what_looks_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "short")
    assert scrubbed("a short  text\nof lines", 200) == "a short text of lines"
    assert scrubbed("x" * 300, 200) == "x" * 200 + "…"


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:80", True),
        ("http://192.168.3.4", True),
        ("http://gpu-node-7:8000/v1", True),
        ("https://api.example.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("", False),
    ],
)
def test_is_private(url: str, private: bool) -> None:
    assert is_private(url) == private


def test_doubled_needs_two_tokens() -> None:
    assert not Tokenized((), None).is_doubled
    assert not Tokenized((1,), None).is_doubled
    assert Tokenized((1, 1), None).is_doubled
