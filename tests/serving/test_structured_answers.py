"""Answers in a form that the provider enforces."""

import importlib.util
import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_cases import CASES

from safepyramid.errors import GuardError
from safepyramid.guards import GUARDS, load_guard
from safepyramid.guards.base import Guard, Message, PolicyAdapter, Prompt, rule_questions
from safepyramid.guards.structured import VERDICT_SCHEMA, read_booleans, rules_schema, structured
from safepyramid.schema import Answer, Reply, State
from servers import completion, serving

CASE = CASES[0]


@given(st.dictionaries(st.integers(1, 40), st.booleans(), min_size=1))
def test_what_is_written_by_the_schema_is_read_back(truth: dict[int, bool]) -> None:
    text = json.dumps({f"r{rule}": violated for rule, violated in truth.items()})
    assert rules_schema(list(truth))["required"] == list(json.loads(text))
    assert read_booleans(text, truth) == {rule for rule, violated in truth.items() if violated}
    for rule in truth:
        without = {f"r{r}": v for r, v in truth.items() if r != rule}
        assert read_booleans(json.dumps(without), truth) is None


ALL = '{"r1": true, "r2": false, "r3": false, "r4": false}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ALL, {1}),
        (f"```json\n{ALL}\n```", {1}),
        (f"<think>Rule 2?</think>{ALL}", {1}),
        (ALL.replace("}", ', "r9": true}'), {1, 9}),
        (ALL.replace("}", ', "why": "dates"}'), {1}),
        (ALL.replace("}", ', "r1": true}'), {1}),
        (ALL.replace("}", ', "r1": false}'), None),
        (ALL.replace("true", '"true"'), None),
        (ALL.replace("true", "1"), None),
        (ALL.replace("r1", "R1"), None),
        (f"[{ALL}]", None),
        (f"The answer: {ALL} and more", None),
        ("{}", None),
        ("", None),
    ],
)
def test_readings(text: str, expected: set[int] | None) -> None:
    assert read_booleans(text, [1, 2, 3, 4]) == expected


def read(reply: Reply) -> tuple[State, list[int] | None, bool]:
    adapter = structured(load_guard("chat")).per_policy
    assert adapter is not None
    answer = adapter.parse(reply, CASE)
    return answer.state, None if answer.violated is None else sorted(answer.violated), answer.strict


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(ALL), (State.ANSWERED, [1], True)),
        (Reply(f"```\n{ALL}\n```"), (State.ANSWERED, [1], False)),
        (Reply(ALL, stop_reason="max_tokens"), (State.ANSWERED, [1], False)),
        (Reply(ALL[:-5], stop_reason="max_tokens"), (State.TRUNCATED, None, False)),
        (Reply(ALL, stop_reason="content_filter"), (State.BLOCKED, None, False)),
        (Reply("", error="connection reset"), (State.ERROR, None, False)),
        (Reply("I'm sorry, I can't help with that."), (State.REFUSED, None, False)),
        (Reply('{"violated_rules": [1]}'), (State.UNPARSED, None, False)),
        (Reply('{"r1": true}'), (State.UNPARSED, None, False)),
        (Reply(ALL.replace("}", ', "r9": true}')), (State.ANSWERED, [1, 9], True)),
    ],
)
def test_states(reply: Reply, expected: Any) -> None:
    assert read(reply) == expected


def test_prompt_asks_for_the_form() -> None:
    plain, formed = load_guard("chat"), structured(load_guard("chat"))
    assert plain.per_policy is not None
    assert formed.per_policy is not None
    before, after = plain.per_policy.render(CASE), formed.per_policy.render(CASE)
    assert after.messages[0] == before.messages[0]
    added = after.messages[1].text.removeprefix(before.messages[1].text)
    assert added.endswith("The keys: r1, r2, r3, r4.")
    assert after.schema == rules_schema([1, 2, 3, 4])
    assert formed.prompts != plain.prompts  # another version of the prompts


def test_shared_prefix_of_a_case_stays() -> None:
    formed = structured(load_guard("chat"))
    assert formed.per_rule is not None
    prompts = [formed.per_rule.render(question) for question in rule_questions(CASE)]
    assert len({prompt.messages[:-1] for prompt in prompts}) == 1
    parts = [prompt.messages[-1].content for prompt in prompts]
    assert len({part[0] for part in parts}) == 1
    assert all(len(part) == 2 and "not_violated" in part[1] for part in parts)
    assert all(prompt.schema == VERDICT_SCHEMA for prompt in prompts)
    verdict = formed.per_rule.parse(Reply('{"verdict": "violated"}'), rule_questions(CASE)[0])
    assert (verdict.state, verdict.violated, verdict.strict) == (State.ANSWERED, True, True)


def test_guards_that_take_no_form() -> None:
    with pytest.raises(GuardError, match="calls no model"):
        structured(load_guard("none"))
    raw = Prompt((Message("user", "<s>"),), raw=True)
    parse = PolicyAdapter(lambda case: raw, lambda reply, case: Answer(State.UNPARSED))
    formed = structured(Guard("raw", per_policy=parse))
    assert formed.per_policy is not None
    with pytest.raises(GuardError, match="leave --structured out"):
        formed.per_policy.render(CASE)


@pytest.mark.parametrize("name", [n for n in GUARDS if n not in ("chat", "gpt-oss-safeguard")])
def test_guards_with_a_form_of_their_own_refuse_another(name: str) -> None:
    reason = "trained to answer in a form of its own" if GUARDS[name].models else "calls no model"
    if name == "similarity" and importlib.util.find_spec("onnxruntime") is None:
        reason = "needs onnxruntime"  # it cannot even be made without its extra
    with pytest.raises(GuardError, match=reason) as raised:
        load_guard(name, structured=True)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["chat", "gpt-oss-safeguard"])
def test_guards_that_answer_as_asked_take_the_form(name: str) -> None:
    formed = load_guard(name, structured=True)
    assert formed.per_policy is not None
    assert formed.per_policy.render(CASE).schema == rules_schema([1, 2, 3, 4])


def test_the_judged_message_of_a_chatbot_is_never_added_to() -> None:
    turns = Prompt((Message("user", "Hi"), Message("assistant", "Hello")))
    parse = PolicyAdapter(lambda case: turns, lambda reply, case: Answer(State.UNPARSED))
    formed = structured(Guard("turns", per_policy=parse))
    assert formed.per_policy is not None
    with pytest.raises(GuardError, match=r"message of the assistant.*leave --structured out"):
        formed.per_policy.render(CASE)


def test_schema_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.model import GenerateConfig, get_model

    from safepyramid.providers.calls import call_settings, chat_messages

    monkeypatch.setenv("OWN_API_KEY", "k")
    formed = structured(load_guard("chat"))
    assert formed.per_policy is not None
    prompt = formed.per_policy.render(CASE)

    async def ask(address: str) -> str:
        async with get_model("openai-api/own/m", base_url=address, memoize=False) as model:
            config = GenerateConfig(**call_settings(prompt, {"top_k": 1}))
            return (await model.generate(chat_messages(prompt), config=config)).completion

    with serving(lambda call: completion(ALL)) as server:
        assert anyio.run(ask, server.address) == ALL
    form = server.calls[0].body["response_format"]["json_schema"]
    assert form["schema"] == rules_schema([1, 2, 3, 4])
    assert form["strict"] is True


def test_template_arguments_keep_the_body_of_the_run() -> None:
    from safepyramid.providers.calls import call_settings

    prompt = Prompt((Message("user", "x"),), template_args={"policy": "y"})
    assert call_settings(prompt, {"top_k": 1}) == {
        "extra_body": {"top_k": 1, "chat_template_kwargs": {"policy": "y"}}
    }
    assert call_settings(Prompt((Message("user", "x"),)), {"top_k": 1}) == {}


def test_further_keys_of_run_makers_and_prompt_are_merged() -> None:
    from safepyramid.providers.calls import call_settings

    prompt = Prompt((Message("user", "x"),), template_args={"policy": "y"})
    given = {"top_k": 1, "chat_template_kwargs": {"enable_thinking": False, "policy": "other"}}
    assert call_settings(prompt, given, {"top_k": 20, "min_p": 0}) == {
        "extra_body": {
            **{"top_k": 1, "min_p": 0},
            "chat_template_kwargs": {"enable_thinking": False, "policy": "y"},
        }
    }
    assert given["chat_template_kwargs"] == {"enable_thinking": False, "policy": "other"}
    guard = load_guard("dynaguard")
    assert guard.settings("per_rule", {"temperature": 1, "extra_body": {"min_p": 1}}) == {
        **guard.settings("per_rule"),
        **{"temperature": 1, "extra_body": {"top_k": 20, "min_p": 1}},
    }
