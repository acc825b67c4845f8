import json
import re

import pytest
from hand_made import FRAMEWORK, HOSTILE, case_of, question_of, without_framework
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import external_file

from safepyramid.errors import GuardError
from safepyramid.guards import GUARDS, load_guard
from safepyramid.guards.adaguard import MAX_RULES

WAYS = [
    (name, options, protocol)
    for name, options in [
        ("gpt-oss-safeguard", {}),
        ("dynaguard", {"mode": "reasoning"}),
        ("dynaguard", {"mode": "fast"}),
        ("shieldlm", {}),
        ("flexguard", {}),
        ("gspr", {}),
        ("adaguard", {}),
        ("granite-guardian", {"think": False}),
        ("granite-guardian", {"think": True}),
        ("shieldgemma", {}),
        ("llama-guard", {"version": 3}),
        ("llama-guard", {"version": 4}),
        ("nemotron", {"variant": "reasoning-4b"}),
        ("nemotron", {"variant": "3.5", "think": True}),
        ("singguard", {"mode": "fast"}),
        ("singguard", {"mode": "slow"}),
    ]
    for protocol in GUARDS[name].protocols
]


def way_id(way):
    name, options, protocol = way
    chosen = "-".join(str(value).lower() for value in options.values())
    return "-".join(part for part in (name, chosen, protocol) if part)


def rendered(way, case):
    name, options, protocol = way
    adapter = getattr(load_guard(name, options=options), protocol)
    return adapter.render(case if protocol == "per_policy" else question_of(case))


def as_text(prompt):
    """A prompt as one text, for people to review."""
    head = ["raw" if prompt.raw else "chat"]
    if prompt.template_args:
        head.append(f"template_args: {json.dumps(dict(prompt.template_args), indent=1)}")
    return "\n".join([*head, *(f"--- {m.role}\n{m.text}" for m in prompt.messages)]) + "\n<end>\n"


@pytest.mark.parametrize("way", WAYS, ids=way_id)
def test_each_prompt_is_the_reviewed_one(way):
    text = as_text(rendered(way, case_of(HOSTILE)))
    assert text == external_file(f"prompts/{way_id(way)}.txt")


@pytest.mark.parametrize("way", WAYS, ids=way_id)
def test_a_prompt_is_chat_or_one_raw_message_of_plain_text(way):
    name, options, _ = way
    prompt = rendered(way, case_of())
    assert all(isinstance(message.content, str) for message in prompt.messages)
    assert all(message.text for message in prompt.messages)
    endpoint = GUARDS[name].endpoint
    assert prompt.raw == ("completions" in endpoint and options.get("mode") != "reasoning")
    if prompt.raw:
        assert [message.role for message in prompt.messages] == ["user"]
        assert prompt.template_args == {}


@pytest.mark.parametrize("way", WAYS, ids=way_id)
def test_conversation_target_and_definitions_are_shown_but_no_type_and_no_label(way):
    prompt = rendered(way, case_of())
    text = as_text(prompt)
    for shown in (
        "And on Sunday?",
        "It is closed on Sunday.",
        "before the user has named a street",
    ):
        assert shown in text
    assert FRAMEWORK.split("\n")[-1] in text
    assert re.search(r"distractor|decisive|conditional|exception|ground.truth", text, re.I) is None


@pytest.mark.parametrize("way", [w for w in WAYS if w[2] == "per_rule"], ids=way_id)
def test_related_rules_are_shown_and_their_place_stays_without_any(way):
    assert "the street be repeated" in as_text(rendered(way, case_of()))
    alone = without_framework(case_of())
    name, options, _ = way
    question = question_of(alone)
    bare = type(question)(alone, question.target, ())
    text = as_text(load_guard(name, options=options).per_rule.render(bare))
    assert "the street be repeated" not in text
    assert text.count("(none)") >= 2


# What a server, or the guard itself, could take for structure: in every family, and by family.
TOKENS = r"<\|[^|]*\|>|<(?:start|end)_of_turn>|\[/?INST\]|</?think\b|(?<!\S)/(?:no_)?think\b"
OWN = {
    "gpt-oss-safeguard": r"</?conversation-",
    "dynaguard": r"</?\s*(?:rules|transcript|answer|explanation)\b|^[ \t]*'?(?:User|Agent)'?\s*:",
    "shieldlm": r"^[ \t]*[AB] ?:|\[(?:Answer|Analysis)\]",
    "flexguard": r"</?conversation-|^(?:User|Assistant):",
    "gspr": r"<\s*(?:BEGIN|END)\s|^'?(?:User|Agent)'?:|\\(?:safety|category)\{",
    "adaguard": r"<",
    "granite-guardian": r"</?\s*(?:guardian|score)\b|^### ",
    "shieldgemma": r"^(?:Human Question|Chatbot Response):",
    "llama-guard": r"<\s*(?:BEGIN|END)\s|^'?(?:User|Agent)'?:",
    "nemotron": r"^(?:Human user|AI assistant|User|Assistant):",
    "singguard": r"</?\s*answer\b",
}
PIECES = [
    *("</", "<", ">", "|", "<|", "|>", "{{ policy }}", "{", "\\safety{", "[Answer]", "[/INST]"),
    *("transcript", "rules", "Answer", "think", "im_end", "im_start", "END CONVERSATION", "score"),
    *("guardian", "untrusted_content", "label", "end_of_turn", "start", "eot_id"),
    *("\n", "\n\n", "\r", " ", "\u200b", "\nAgent:", "\n'User':", "\nA: ", "\n B :", " /no_think "),
    *("Human user:", "Chatbot Response:", "User:", "### Criteria", "hello", "Turn 9 - User: "),
]
messages = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@pytest.mark.parametrize("way", WAYS, ids=way_id)
@given(texts=st.tuples(messages, messages, messages, messages))
def test_no_conversation_adds_a_marker(way, texts):
    common = "" if way[0] == "adaguard" else f"{TOKENS}|"  # it escapes "<", which all else needs
    markers = re.compile(common + OWN[way[0]], re.IGNORECASE | re.MULTILINE)

    def structure(case):
        text = as_text(rendered(way, case))
        return re.sub(r"(?<=conversation-)\w{16}", "", " ".join(markers.findall(text)))

    assert structure(case_of(tuple(f"x{text}" for text in texts))) == structure(case_of())


def test_braces_and_gaps_in_a_conversation_stay_as_they_are():
    for way in WAYS:
        text = as_text(rendered(way, case_of(("{{ policy }} {0} {x!r}", "%s ${y}"))))
        assert "{{ policy }} {0} {x!r}" in text
        assert "%s ${y}" in text


# --- what is exact in each family


def test_dynaguard_fast_opens_the_answer_behind_an_empty_thought():
    prompt = rendered(("dynaguard", {"mode": "fast"}, "per_rule"), case_of())
    [message] = prompt.messages
    assert message.text.startswith("<|im_start|>system\n\n")
    assert message.text.endswith(
        "\n</transcript>\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<answer>\n"
    )
    assert (
        "<transcript>\n'User': When does the library close?\n'Agent': At eight.\n" in message.text
    )


def test_shieldlm_has_an_empty_system_message_and_a_break_before_the_users_end():
    [message] = rendered(("shieldlm", {}, "per_rule"), case_of()).messages
    assert message.text.startswith("<|im_start|>system\n<|im_end|>\n<|im_start|>user\n")
    assert message.text.endswith(
        "\n\nA: When does the library close?\nB: At eight.\nA: And on Sunday?\n"
        "B: It is closed on Sunday.\n<|im_end|>\n<|im_start|>assistant\n"
    )


def test_adaguard_sends_canonical_json_that_cannot_close_its_tag():
    prompt = rendered(("adaguard", {}, "per_policy"), case_of(HOSTILE))
    policy = re.search(
        r"<trusted_risk_policy>([^<>]*)</trusted_risk_policy>\Z", prompt.messages[0].text
    )[1]
    content = re.fullmatch(
        r"<untrusted_content>([^<>]*)</untrusted_content>", prompt.messages[1].text
    )[1]
    for text in (policy, content):
        value = json.loads(text)
        plain = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        assert text == plain.replace("<", "\\u003c").replace(">", "\\u003e")
    rules = json.loads(policy)["risk_rules"]
    assert [rule["id"] for rule in rules] == ["R2", "R3", "R1"]
    assert json.loads(policy)["single_label"] is False
    [events] = json.loads(content)["content"]
    assert events[0] == {"role": "user", "content": HOSTILE[0]}
    assert events[1] == {"role": "agent", "thought": "", "action": HOSTILE[1]}


def test_adaguard_refuses_a_policy_with_too_many_rules():
    rules = "\n\n".join(f"{n}. The chatbot must say {n}." for n in range(1, MAX_RULES + 2))
    case = without_framework(case_of())
    case = type(case)(**{f: getattr(case, f) for f in case.__slots__} | {"policy": rules})
    with pytest.raises(GuardError, match=r"at most 100 rules, not 101; use --protocol per_rule"):
        load_guard("adaguard").per_policy.render(case)


def test_granite_puts_the_criterion_into_a_turn_after_the_conversation():
    prompt = rendered(("granite-guardian", {"think": False}, "per_rule"), case_of())
    assert [m.role for m in prompt.messages] == ["user", "assistant"] * 2 + ["user"]
    assert prompt.messages[-1].text.startswith("<guardian><no-think>")
    assert "\n\n### Criteria: " in prompt.messages[-1].text
    assert "\n\n### Scoring Schema: " in prompt.messages[-1].text


def test_shieldgemma_is_one_text_whose_blocks_are_not_turns_of_the_model():
    [message] = rendered(("shieldgemma", {}, "per_rule"), case_of()).messages
    assert message.text.count("<start_of_turn>\nHuman Question: ") == 2
    assert message.text.count("<start_of_turn>\nChatbot Response: ") == 2
    assert "<bos>" not in message.text
    assert message.text.endswith("\n\n")


@pytest.mark.parametrize(
    ("version", "head", "tail"),
    [
        (
            3,
            "<|start_header_id|>user<|end_header_id|>\n\nTask: ",
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            4,
            "<|header_start|>user<|header_end|>\n\nTask: ",
            "<|eot|><|header_start|>assistant<|header_end|>\n\n",
        ),
    ],
)
def test_llama_guard_numbers_categories_like_rules(version, head, tail):
    way = ("llama-guard", {"version": version}, "per_policy")
    [message] = rendered(way, case_of()).messages
    assert message.text.startswith(head)
    assert message.text.endswith(tail)
    listed = message.text.split("<BEGIN UNSAFE CONTENT CATEGORIES>\n")[1]
    listed = listed.split("\n<END UNSAFE CONTENT CATEGORIES>")[0]
    assert [line.partition(":")[0] for line in listed.split("\n")] == ["S2", "S3", "S1"]


@pytest.mark.parametrize(("think", "switch"), [(False, "\n\n/no_think"), (True, "\n\n/think")])
def test_nemotron_4b_ends_in_the_switch(think, switch):
    options = {"variant": "reasoning-4b", "think": think}
    [message] = rendered(("nemotron", options, "per_rule"), case_of()).messages
    assert message.text.endswith(switch)


def test_nemotron_35_takes_the_policy_as_template_argument_and_one_exchange():
    prompt = rendered(("nemotron", {"variant": "3.5", "think": False}, "per_rule"), case_of())
    assert "named a street" in prompt.template_args["custom_policy"]
    assert prompt.template_args["enable_thinking"] is False
    assert [(m.role, m.text) for m in prompt.messages] == [
        ("user", "When does the library close?"),
        ("assistant", "At eight.\n\nUser: And on Sunday?\n\nAssistant: It is closed on Sunday."),
    ]


def test_singguard_takes_the_rule_as_template_argument():
    prompt = rendered(("singguard", {"mode": "fast"}, "per_rule"), case_of())
    assert prompt.template_args["policy"].startswith("### A. ")
    assert "\n\n### Safe\n  - " in prompt.template_args["policy"]
    assert prompt.template_args["thinking_type"] == "fast"
    slow = rendered(("singguard", {"mode": "slow"}, "per_rule"), case_of())
    assert "thinking_type" not in slow.template_args


def test_guards_of_one_token_ask_for_log_probabilities():
    for name, options in (("shieldgemma", {}), ("shieldlm", {}), ("dynaguard", {"mode": "fast"})):
        config = load_guard(name, options=options).per_rule.config
        assert config["logprobs"] is True
        assert config["top_logprobs"] == 20
    assert load_guard("shieldgemma").per_rule.config["max_tokens"] == 1


def test_every_setting_is_one_that_the_engine_knows():
    from inspect_ai.model import GenerateConfig

    for name, options, protocol in WAYS:
        config = getattr(load_guard(name, options=options), protocol).config
        assert set(config) <= set(GenerateConfig.model_fields), name
        GenerateConfig(**config)
