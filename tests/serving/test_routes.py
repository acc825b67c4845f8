"""Which provider takes which prompt, and what a server's error means."""

import pytest

from safepyramid.errors import RunError
from safepyramid.providers.routes import is_too_long, require_route


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
