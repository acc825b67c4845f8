"""One result line of a batch, read into a reply.

Three forms are known:

- batch services and `vllm run-batch`: `{"custom_id", "response": {"status_code", "body"}, "error"}`;
- older `vllm run-batch`: the same with the body itself as `response`;
- rows of Ray Data: `{"custom_id", "generated_text", "num_generated_tokens", …}`.
"""

import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.errors import DataError
from safepyramid.providers.routes import is_too_long, stop_reason
from safepyramid.schema import Reply

_REASONING = ("reasoning_content", "reasoning")
"""Where servers put thinking that they keep apart."""


def read_replies(
    path: str | Path, notes: list[str], max_tokens: int | None = None
) -> Iterator[tuple[str, Reply]]:
    """The replies of a result file, each with the id of its request, one line at a time.

    A last line that was cut, as a kill leaves it, is left out and named in `notes`: it starts as
    an object, has no line end and is no complete JSON.

    Args:
        path: JSON lines; a line may also be a list of results.
        notes: Receives what the reader should know.
        max_tokens: The output limit of the requests. Rows of Ray Data do not say why a reply
            ended; one of this length was cut.

    Raises:
        DataError: The file cannot be read, or a line is no result.
    """
    try:
        with Path(path).open("rb") as file:
            for number, raw in enumerate(file, 1):
                line = (raw.removeprefix(BOM_UTF8) if number == 1 else raw).strip()
                if not line:
                    continue
                where = f"{path} line {number}"
                try:
                    value = json.loads(line.decode("utf-8"))
                except (ValueError, RecursionError) as error:
                    if raw.endswith(b"\n") or not line.startswith(b"{"):
                        raise DataError(f"{where} is no JSON object: {_shown(line)}") from error
                    notes.append(f"{where}: the last line is cut and was left out")
                    return
                for each in value if isinstance(value, list) else [value]:
                    yield _name(each, where), to_reply(each, max_tokens)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a result file") from error


def _name(line: Any, where: str) -> str:
    if not isinstance(line, Mapping):
        raise DataError(f"{where} is no JSON object: {json.dumps(line)[:60]!r}")
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
    text = _text(choice.get("text"))
    reasoning = refusal = ""
    if isinstance(message, Mapping):
        refusal = _text(message.get("refusal"))
        text = refusal or _text(message.get("content"))
        reasoning = next((str(message[key]) for key in _REASONING if message.get(key)), "")
    usage = _mapping(body.get("usage"))
    return Reply(
        text=text,
        reasoning=reasoning,
        stop_reason=stop_reason(choice.get("finish_reason")),
        logprobs=_optional(_logprobs, choice.get("logprobs")),
        output_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(
            _mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")
        ),
        refused=bool(refusal),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int | None:
    """A count of tokens; None for what is no count. Tables turn whole numbers into floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


Logprobs = tuple[Mapping[str, float], ...]


def _optional(read: Callable[[Any], Logprobs], given: Any) -> Logprobs:
    """Log-probabilities, none where they are in no known form: the answer stands without them."""
    try:
        return read(given) if given else ()
    except (AttributeError, KeyError, TypeError, IndexError, ValueError):
        return ()


def _logprobs(given: Mapping[str, Any]) -> Logprobs:
    """Log-probabilities in the form of chat replies, or of completions."""
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
    error = row.get("__inference_error__")
    if error and not isinstance(error, float):  # NaN, as tables write null
        return _failed(error)
    count = _count(row.get("num_generated_tokens"))
    stop = stop_reason(row.get("finish_reason"))
    if stop == "unknown" and max_tokens is not None and count is not None and count >= max_tokens:
        stop = "max_tokens"
    logprobs = _optional(_row_logprobs, row.get("logprobs"))
    return Reply(
        _text(row.get("generated_text")), stop_reason=stop, logprobs=logprobs, output_tokens=count
    )


def _row_logprobs(given: Sequence[Mapping[str, Any]]) -> Logprobs:
    return tuple(
        {str(each["decoded_token"]): float(each["logprob"]) for each in token.values() if each}
        for token in given
    )
