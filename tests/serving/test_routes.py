"""Which provider takes which prompt, and what a server's error means."""

import pytest

from safepyramid.errors import RunError
from safepyramid.providers.routes import client_args, is_too_long, require_route, stop_reason


@pytest.mark.parametrize(
    ("model", "raw"),
    [
        ("openai/gpt-5.5", False),
        ("vllm/org/name", False),
        ("local/gguf", False),
        ("local/gguf", True),
        ("mockllm/model", True),
        ("completions/org/name", True),
        ("openai-api-completions/own/org/name", True),
        ("vllm-completions/org/name", True),
    ],
)
def test_routes_that_are_open(model: str, raw: bool) -> None:
    require_route(model, raw=raw)


@pytest.mark.parametrize(
    ("model", "raw", "message"),
    [
        ("openai/gpt-5.5", True, "which 'openai' would wrap .* --model completions/gpt-5.5"),
        ("vllm/org/name", True, "completions/org/name with --model-base-url"),
        ("openai-api/own/org/name", True, "completions/org/name with --model-base-url"),
        ("completions/org/name", False, "--model openai-api/NAME/org/name"),
        ("vllm-completions/org/name", False, "sends raw texts only"),
    ],
)
def test_routes_that_are_closed(model: str, raw: bool, message: str) -> None:
    with pytest.raises(RunError, match=message):
        require_route(model, raw=raw)


WORDS = ("stop", "eos", "length", "tool_calls", "function_call", "content_filter", "model_length")


@pytest.mark.parametrize("word", [*WORDS, "max_tokens", None])
def test_finish_reasons_that_inspect_knows_have_its_names(word: str | None) -> None:
    from inspect_ai.model._model_output import as_stop_reason

    assert stop_reason(word) == as_stop_reason(word)


@pytest.mark.parametrize("model", ["openai/gpt-5", "anthropic/claude-opus-4-6", "openai-api/own/m"])
def test_clients_make_no_retries_that_nobody_counts(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safepyramid.runs.evaluate import Request, _model

    pytest.importorskip("anthropic")
    for name in ("OPENAI", "ANTHROPIC", "OWN"):
        monkeypatch.setenv(f"{name}_API_KEY", "key-of-the-test")
    asked = Request(model=model, model_base_url="http://127.0.0.1:9/v1")
    assert _model(asked).api.client.max_retries == 0  # type: ignore[attr-defined]
    own = Request(
        model=model, model_base_url="http://127.0.0.1:9/v1", model_args={"max_retries": 5}
    )
    assert _model(own).api.client.max_retries == 5  # type: ignore[attr-defined]
    assert client_args("together/m") == {}  # takes no such argument


@pytest.mark.parametrize(
    ("error", "too_long"),
    [
        ("request (9031 tokens) exceeds the available context size (8192 tokens)", True),
        ("This model's maximum context length is 4096 tokens, you requested 5000", True),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 8192", True),
        ('{"code": "context_length_exceeded"}', True),
        ("rate limit exceeded", False),
        ("max_tokens is too large", False),
        ("", False),
    ],
)
def test_errors_of_length(error: str, too_long: bool) -> None:
    assert is_too_long(error) == too_long
