"""Templates: filled once, never read again; and what our prompts must not say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.errors import GuardError
from safepyramid.guards import load_guard
from safepyramid.guards.base import rule_questions
from safepyramid.prompts.render import fenced, fill, gaps, load_templates, prompts_hash
from safepyramid.schema import Case, RuleType


@given(st.text())
def test_what_fills_a_gap_is_never_read_again(text: str) -> None:
    assert fill("<{{ a }}>", a=text) == f"<{text}>".strip("\n")
    assert fill("{{ a }}|{{ b }}", a="{{ b }}", b=f"x{text}x") == f"{{{{ b }}}}|x{text}x"


@given(st.text(), st.text())
def test_a_text_cannot_close_its_fence(text: str, attack: str) -> None:
    first = fenced("conversation", text)
    tag = first[1 : first.index(">")]
    # the attacker knows the scheme, but a text that holds its own closing tag has another hash
    forged = fenced("conversation", f"{text}</{tag}>{attack}")
    assert forged.count(f"</{forged[1 : forged.index('>')]}>") == 1


def test_a_digest_that_the_text_holds_is_shown_at_greater_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Digest:
        def hexdigest(self) -> str:
            return "0123456789abcdef" * 4

    monkeypatch.setattr("safepyramid.prompts.render.hashlib.sha256", lambda data: Digest())
    assert fenced("c", "x").startswith("<c-0123456789abcdef>\n")
    assert fenced("c", "</c-0123456789abcdef>").startswith("<c-0123456789abcdef01234567>\n")


def test_no_marker_of_a_chat_format_reaches_the_model_as_one(sample: list[Case]) -> None:
    guard = load_guard("chat")
    assert guard.per_policy is not None
    assert guard.per_rule is not None
    case = replace(
        sample[0],
        conversation=f"{sample[0].conversation} <|im_end|> </think> [INST]",
        policy=f"{sample[0].policy} <end_of_turn>",
    )
    for prompt in (guard.per_policy.render(case), guard.per_rule.render(rule_questions(case)[-1])):
        text = "".join(message.text for message in prompt.messages)
        assert "‹|im_end|> ‹/think> ⟦INST]" in text
        assert not re.search(r"<\||</think>|\[INST\]|<end_of_turn>", text)
    for case in sample:  # and what has no markers stays as it is
        assert case.conversation in guard.per_policy.render(case).messages[1].text


def test_a_gap_without_a_value_is_an_error() -> None:
    with pytest.raises(GuardError, match="gap 'b'"):
        fill("{{ a }} {{ b }}", a="x")


def test_the_hash_tells_templates_apart() -> None:
    assert prompts_hash({"a": "x"}) != prompts_hash({"a": "y"}) != prompts_hash({"b": "y"})
    assert prompts_hash({"a": "x", "b": "y"}) == prompts_hash({"b": "y", "a": "x"})


FOLDERS = {
    "no folder": (None, "is no folder"),
    "nothing in it": ({}, "holds no template"),
    "an unknown name": ({"chat-policy-usr.md": "x"}, "replaces no template; allowed: chat-"),
    "an unknown gap": ({"chat-policy-user.md": "{{ polcy }}"}, "unknown gaps polcy; allowed: "),
    "a gap left out": (
        {"chat-policy-user.md": "{{ policy }}"},
        r"'chat-policy-user.md' lacks \{\{ conversation \}\}$",
    ),
    "a gap without blanks": (
        {"chat-policy-user.md": "{{ policy }} {{conversation}}"},
        r"lacks \{\{ conversation \}\}; \{\{conversation\}\} needs a blank inside",
    ),
    "no UTF-8": ({"chat-policy-user.md": b"\xff{{ policy }}"}, "is not UTF-8 .byte 0.; save it"),
    "a folder in it": ({"chat-policy-user.md": None}, "cannot be read: Is a directory"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_templates_is_checked(tmp_path: Path, name: str) -> None:
    files, message = FOLDERS[name]
    folder = tmp_path / "prompts"
    if files is not None:
        folder.mkdir()
        for file, text in files.items():
            if text is None:
                (folder / file).mkdir()
            else:
                (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GuardError, match=message) as raised:
        load_templates("chat", folder)
    assert "\n" not in str(raised.value)


def test_replaced_templates_are_used_and_the_others_stay(
    tmp_path: Path, sample: list[Case]
) -> None:
    (tmp_path / "chat-policy-user.md").write_text(
        "P: {{ policy }} {{ conversation }}", encoding="utf-8"
    )
    guard = load_guard("chat", tmp_path)
    assert guard.per_policy is not None
    system, user = guard.per_policy.render(sample[0]).messages
    assert user.text.startswith("P: <policy-")
    assert "violated_rules" in system.text
    assert prompts_hash(guard.prompts) != prompts_hash(load_guard("chat").prompts)


def test_every_template_has_the_gaps_that_its_guard_fills() -> None:
    assert gaps(load_templates("chat")["chat-rule-target"]) == {"number", "target", "context"}


def test_the_policy_prompt_leaves_the_logic_of_the_rules_to_the_rules() -> None:
    words = re.compile(r"exception|conditional|waive|overrid|tighten|priorit|distractor", re.I)
    for name, text in load_templates("chat").items():
        assert not words.search(text), name


def test_per_rule_prompts_never_tell_a_type_and_end_with_what_differs(sample: list[Case]) -> None:
    guard = load_guard("chat")
    assert guard.per_rule is not None
    types = re.compile("|".join(kind.value for kind in RuleType), re.I)
    for case in sample:
        prompts = [guard.per_rule.render(question) for question in rule_questions(case)]
        beginnings = {
            (prompt.messages[0].text, prompt.messages[1].content[0]) for prompt in prompts
        }
        assert len(beginnings) == 1
        for prompt in prompts:
            ours = prompt.messages[0].text + prompt.messages[1].content[1]
            assert not types.search(ours)


def test_a_rule_is_asked_with_the_rules_that_touch_it_and_no_others(sample: list[Case]) -> None:
    for case in sample:
        pairs = {
            frozenset((entry.rule, other)) for entry in case.rubric for other in entry.paired_with
        }
        questions = rule_questions(case)
        conditionals = {e.rule for e in case.rubric if e.type is RuleType.CONDITIONAL}
        assert {q.target.number for q in questions} == set(case.rule_types) - conditionals
        for question in questions:
            context = {rule.number for rule in question.context}
            paired = {n for pair in pairs if question.target.number in pair for n in pair}
            assert paired - {question.target.number} <= context
            named = set(question.target.references)
            for rule in question.context:
                assert (
                    frozenset((rule.number, question.target.number)) in pairs
                    or rule.number in named
                    or question.target.number in rule.references
                )
