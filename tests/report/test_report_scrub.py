"""Secrets do not get into a report."""

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.report.scrub import make_last_check, scrub_all
from safepyramid.secrets import REMOVED, make_scrub

SCRUB = make_scrub({})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-proj-Abc123_def456-ghi789 end", "Abc123_def456"),
        ("sk-test-1234567890abc", "1234567890abc"),
        ("sk-ant-api03-AAAABBBBCCCC1111-dddd", "BBBBCCCC"),
        ("hf_AbCdEfGhIjKlMnOp1234", "AbCdEfGh"),
        ("gsk_abcdefghij1234567890", "abcdefghij"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "SyA1234567890"),
        ("AKIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP"),
        ("xai-0123456789abcdefghij", "0123456789abcdef"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ123456", "0123456789abc"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl", "eyJzdWIi"),
        ("Authorization: Bearer abcd1234efgh5678", "abcd1234efgh5678"),
        ('{"Authorization": "Basic dXNlcjpwYXNz1234"}', "dXNlcjpwYXNz1234"),
        ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
        ("api_key=abcdef1234567890", "abcdef1234567890"),
        ("https://host/v1?key=abcdef1234567890&x=1", "abcdef1234567890"),
        ("http://user:hunter2@host:8000/v1", "hunter2"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
            "MIIE",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIEabcdefghijklmnop cut", "MIIE"),
    ],
)
def test_what_looks_like_a_key_is_removed(text: str, secret: str) -> None:
    found = SCRUB(text)
    assert secret in text
    assert secret not in found
    assert REMOVED in found


@pytest.mark.parametrize(
    "text",
    [
        "The task-1 risk-based sk-learn-like approach",
        '{"violated_rules": [{"rule": 3, "explanation": "turn 2: bearer of bad news"}]}',
        "max_tokens: 32000, temperature: 0.7",
        "https://example.org/a?page=2&key=short",
        "a7fd1b3198c2 4c9cabcf8866f568ec516431585a590da054b1d024196a60e684800a934ce762",
        "authorization was given by the manager",
        "mail me at jo@example.org: today",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert SCRUB(text) == text


def test_values_of_variables_that_are_named_like_keys() -> None:
    environ = {
        "OPENAI_API_KEY": "plainword!longer",
        "OPENAI_API_KEY_2": "plainword!",
        "HF_TOKEN": "other words",
        "KEYBOARD": "querty-layout",
        "TOKENS": "not-a-secret",
        "SECRET": "short",
    }
    scrub = make_scrub(environ)
    assert scrub("plainword!longer and plainword! and other words") == (
        f"{REMOVED} and {REMOVED} and {REMOVED}"
    )
    assert scrub("querty-layout not-a-secret short") == "querty-layout not-a-secret short"


@given(st.text(min_size=8).filter(lambda text: len(text.strip()) >= 8), st.text())
def test_no_form_of_a_value_survives_the_last_check(value: str, around: str) -> None:
    environ = {"A_TOKEN": value}
    for form in (value.strip(), html.escape(value.strip()), json.dumps(value.strip())[1:-1]):
        found = make_last_check(environ)(f"{around}{form}{around}")
        assert form not in found.replace(REMOVED, "\0")


def test_nested_values_are_scrubbed_with_their_keys() -> None:
    key = "sk-test-1234567890abc"
    assert scrub_all({"a": [key, 3, None, {"b": (key,)}], key: True}, SCRUB) == {
        "a": [REMOVED, 3, None, {"b": [REMOVED]}],
        REMOVED: True,
    }
