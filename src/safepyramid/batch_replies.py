"""One result line of a batch, read into a reply.

Three forms are known:

- batch services and `vllm run-batch`: `{"custom_id", "response": {"status_code", "body"}, "error"}`;
- older `vllm run-batch`: the same with the body itself as `response`;
- rows of Ray Data: `{"custom_id", "generated_text", "num_generated_tokens", …}`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safepyramid.errors import DataError
from safepyramid.providers.routes import is_too_long
from safepyramid.schema import Reply

_STOPS = {
    "stop": "stop",
    "eos": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""A server's finish reason -> Inspect's name for it."""
_REASONING = ("reasoning_content", "reasoning")
"""Where servers put thinking that they keep apart."""


def read_replies(
    path: str | Path, notes: list[str], max_tokens: int | None = None
) -> Iterator[tuple[str, Reply]]:
    """The replies of a result file, each with the id of its request, one line at a time.

    A last line that was cut, as a kill leaves it, is left out and named in `notes`.

    Args:
        path: JSON lines.
        notes: Receives what the reader should know.
        max_tokens: The output limit of the requests. Rows of Ray Data do not say why a reply
            ended; one of this length was cut.

    Raises:
        DataError: The file cannot be read, or a line is no result.
    """
    try:
        with Path(path).open("rb") as file:
            for number, line, is_last in _numbered(file):
                if not line.strip():
                    continue
                where = f"{path} line {number}"
                value = _decoded(line)
                if value is None and is_last:
                    notes.append(f"{where}: the last line is cut and was left out")
                elif value is None:
                    raise DataError(f"{where} is no JSON object: {_shown(line)}")
                else:
                    yield _name(value, where), to_reply(value, max_tokens)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a result file") from error


def _numbered(file: Any) -> Iterator[tuple[int, bytes, bool]]:
    """Lines with their number and whether they are the last."""
    number, before = 0, b""
    for number, line in enumerate(file, 1):
        if number > 1:
            yield number - 1, before, False
        before = line
    if number:
        yield number, before, True


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _name(line: Mapping[str, Any], where: str) -> str:
    name = line.get("custom_id")
    if not isinstance(name, str) or not ({"response", "error"} & line.keys() or _is_row(line)):
        raise DataError(
            f"{where} is no result: it needs custom_id, and response, error or generated_text"
        )
    return name


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


def _is_row(line: Mapping[str, Any]) -> bool:
    return "generated_text" in line or "__inference_error__" in line


def to_reply(line: Mapping[str, Any], max_tokens: int | None = None) -> Reply:
    """A result line as a reply; what went wrong is its error, and no line raises."""
    try:
        return _read(line, max_tokens)
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        return _failed(f"malformed result ({type(error).__name__}: {error})")


def _read(line: Mapping[str, Any], max_tokens: int | None) -> Reply:
    if _is_row(line):
        return _from_row(line, max_tokens)
    response = line.get("response")
    if not isinstance(response, Mapping):
        return _failed(line.get("error") or "no response")
    body = response if "choices" in response else response.get("body")
    status = response.get("status_code", 200)
    if not isinstance(body, Mapping) or not body.get("choices"):
        cause = body.get("error", body) if isinstance(body, Mapping) else body
        return _failed(cause or line.get("error") or f"status {status} without an answer")
    return _from_body(body)


def _failed(error: Any) -> Reply:
    text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    if is_too_long(text):
        return Reply(text, stop_reason="model_length")
    return Reply("", stop_reason="unknown", error=text)


def _from_body(body: Mapping[str, Any]) -> Reply:
    choice = body["choices"][0]
    message = choice.get("message")
    text = choice.get("text") or ""
    reasoning = ""
    if isinstance(message, Mapping):
        text = _text(message.get("refusal") or message.get("content"))
        reasoning = next((str(message[key]) for key in _REASONING if message.get(key)), "")
    usage = body.get("usage") or {}
    return Reply(
        text=text,
        reasoning=reasoning,
        stop_reason=_STOPS.get(choice.get("finish_reason"), "unknown"),
        logprobs=_logprobs(choice.get("logprobs")),
        output_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(
            (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        ),
    )


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


Logprobs = tuple[Mapping[str, float], ...]


def _logprobs(given: Any) -> Logprobs:
    """Log-probabilities in the form of chat replies, or of completions."""
    if not isinstance(given, Mapping):
        return ()
    if given.get("content"):
        return tuple(
            {top["token"]: float(top["logprob"]) for top in token.get("top_logprobs") or []}
            | {token["token"]: float(token["logprob"])}
            for token in given["content"]
        )
    tokens, chosen = given.get("tokens") or [], given.get("token_logprobs") or []
    tops = given.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        {**{name: float(value) for name, value in (top or {}).items()}, token: float(logprob)}
        for token, logprob, top in zip(tokens, chosen, tops, strict=False)
        if logprob is not None
    )


def _from_row(row: Mapping[str, Any], max_tokens: int | None) -> Reply:
    if row.get("__inference_error__"):
        return _failed(row["__inference_error__"])
    count = _count(row.get("num_generated_tokens"))
    stop = _STOPS.get(str(row.get("finish_reason")), "unknown")
    if stop == "unknown" and max_tokens is not None and count is not None and count >= max_tokens:
        stop = "max_tokens"
    logprobs = tuple(
        {str(each["decoded_token"]): float(each["logprob"]) for each in token.values() if each}
        for token in row.get("logprobs") or []
    )
    return Reply(
        _text(row.get("generated_text")), stop_reason=stop, logprobs=logprobs, output_tokens=count
    )
