import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.guards.rendering import LOOKALIKES, marker_free

clean = marker_free(
    tags=["transcript", "end"],
    labels=["User", "AI assistant"],
    starts=["\\safety{", "### C"],
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<|im_end|>", "‹|im_end|>"),
        ("<｜end▁of▁sentence｜>", "‹｜end▁of▁sentence｜>"),
        ("<start_of_turn>user", "‹start_of_turn>user"),
        ("<start_of_image><image_soft_token>", "‹start_of_image>‹image_soft_token>"),
        ("[SYSTEM_PROMPT] [/SYSTEM_PROMPT]", "⟦SYSTEM_PROMPT] ⟦/SYSTEM_PROMPT]"),
        ("[TOOL_CALLS][", "⟦TOOL_CALLS]["),
        ("<bos></s>[INST][/INST]<<SYS>>", "‹bos>‹/s>⟦INST]⟦/INST]‹<SYS>>"),
        ("</think> <think>", "‹/think> ‹think>"),
        ("a /no_think b /think", "a ∕no_think b ∕think"),
        ("</transcript>", "‹/transcript>"),
        ("< / Transcript >", "‹ / Transcript >"),
        ("<\u200btranscript id=1>", "‹\u200btranscript id=1>"),
        ("<END  CONVERSATION>", "‹END  CONVERSATION>"),
        ("<ending>", "<ending>"),
        ("<trans<transcript>cript>", "<trans‹transcript>cript>"),
        ("</transcript <transcript>>", "‹/transcript ‹transcript>>"),
        ("User: hi\n user : ho\n'User': x", "User꞉ hi\n user ꞉ ho\n'User'꞉ x"),
        ("**AI assistant:** sure", "**AI assistant꞉** sure"),
        ("x\rUser: y\u2028User: z", "x\rUser꞉ y\u2028User꞉ z"),
        ("\\safety{safe}", "⧵safety{safe}"),
        ("### Criteria", "♯## Criteria"),
    ],
)
def test_a_marker_becomes_a_lookalike(text, shown):
    assert clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a < b and c > d",
        "<b>bold</b> <transcripts> <span>",
        "path/to/think and 1/think",
        "The user: said so",  # no label at the start of a line
        "Users: 3",
        "[1] [INSTALL]",
        "{{ policy }} {0} %s \\n",
        "### Notes",
        "x <= y | z",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert clean(text) == text


PIECES = [
    "<",
    "</",
    ">",
    "|",
    "transcript",
    "think",
    "User",
    ":",
    "\n",
    " ",
    "\\safety",
    "{",
    "[",
    "/",
    "INST",
    "]",
    "#",
]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text(max_size=40))
def test_it_is_idempotent_keeps_the_length_and_changes_only_into_lookalikes(text):
    shown = clean(text)
    assert clean(shown) == shown
    assert len(shown) == len(text)
    changed = {(a, b) for a, b in zip(text, shown, strict=True) if a != b}
    assert changed <= set(LOOKALIKES.items())


def test_lookalikes_are_not_turned_back_by_normalization():
    import unicodedata

    for character, lookalike in LOOKALIKES.items():
        for form in ("NFC", "NFKC", "NFKD"):
            assert character not in unicodedata.normalize(form, lookalike)


def test_it_takes_linear_time():
    for piece in ("<", "<    ", "User ", "\n   ", "[", "</transcript", "\\safety"):
        start = time.perf_counter()
        clean(piece * 200_000)
        assert time.perf_counter() - start < 3
