"""What a server of one's own makes of a prompt: its token count, its context, its first tokens.

llama.cpp and vLLM say so; hosted services do not.
"""

import ipaddress
import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from safepyramid.guards.base import Prompt

_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A prompt as the model sees it."""

    tokens: tuple[int, ...]
    context: int | None
    """Tokens that prompt and answer may have together; None where the server does not say."""

    @property
    def is_doubled(self) -> bool:
        """Whether the first token is there twice: by the template, and by the tokenizer again."""
        return len(self.tokens) > 1 and self.tokens[0] == self.tokens[1]


def tokenize(base_url: str, key: str | None, model: str, prompt: Prompt) -> Tokenized | None:
    """Ask the server that serves a model what it makes of a prompt.

    Args:
        base_url: The address that the model is called at, with or without `/v1`.
        key: What is sent as a bearer token.
        model: The model's name as the server knows it.
        prompt: A prompt, chat or raw.

    Returns:
        None where the address is not one of a private network, or the server cannot say.
    """
    if not is_private(base_url):
        return None
    server = _Server(base_url.rstrip("/").removesuffix("/v1"), key)
    return _by_llama_cpp(server, prompt) or _by_vllm(server, model, prompt)


def is_private(url: str) -> bool:
    """Whether an address is this machine's or a private network's own, by its name or number.

    >>> is_private("http://10.0.0.7:8000/v1"), is_private("https://api.openai.com/v1")
    (True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or (host != "" and "." not in host)


@dataclass(frozen=True, slots=True)
class _Server:
    root: str
    key: str | None

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """What the server answers; None where it has no such path or no answer."""
        data = None if body is None else json.dumps(body).encode("ascii")
        request = Request(f"{self.root}{path}", data, {"Content-Type": "application/json"})
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        try:
            # No proxy: the server is near, and what is asked may be confidential.
            with build_opener(ProxyHandler({})).open(request, timeout=_SECONDS) as response:
                answer = json.load(response)
        except (HTTPError, OSError, ValueError):
            return None
        return answer if isinstance(answer, dict) else None


def _chat(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in prompt.messages]


def _by_llama_cpp(server: _Server, prompt: Prompt) -> Tokenized | None:
    if prompt.raw:
        text: Any = prompt.messages[0].text
    else:
        rendered = server.ask("/apply-template", {"messages": _chat(prompt)})
        text = (rendered or {}).get("prompt")
    if not isinstance(text, str):
        return None
    # As the server does it for an answer: special tokens are added, and read in the text.
    asked = {"content": text, "add_special": True, "parse_special": True}
    properties = server.ask("/props") or {}
    context = (properties.get("default_generation_settings") or {}).get("n_ctx")
    return _tokenized(server.ask("/tokenize", asked), context)


def _by_vllm(server: _Server, model: str, prompt: Prompt) -> Tokenized | None:
    asked: dict[str, Any] = {"model": model}
    if prompt.raw:
        asked["prompt"] = prompt.messages[0].text
    else:
        asked["messages"] = _chat(prompt)
        if prompt.template_args:
            asked["chat_template_kwargs"] = dict(prompt.template_args)
    answer = server.ask("/tokenize", asked)
    return _tokenized(answer, (answer or {}).get("max_model_len"))


def _tokenized(answer: dict[str, Any] | None, context: Any) -> Tokenized | None:
    tokens = (answer or {}).get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(type(t) is int for t in tokens):
        return None
    return Tokenized(tuple(tokens), context if type(context) is int else None)
