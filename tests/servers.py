"""A local server that speaks the OpenAI wire format and fails in every way that is asked of it.

The one fake of this suite: it stands behind the real client, over a real socket.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Script = Callable[["Call"], "Response | dict[str, Any] | str"]


@dataclass
class Call:
    """A request as the server saw it."""

    body: dict[str, Any]
    headers: dict[str, str]
    path: str
    attempt: int
    """How often this very body has been sent, from 1."""

    @property
    def text(self) -> str:
        """All that the model is told, as one string."""
        if "prompt" in self.body:
            return str(self.body["prompt"])
        return "\n".join(_text(message["content"]) for message in self.body["messages"])


@dataclass
class Response:
    """An answer on the wire."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False
    """Close the connection without an answer."""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def completion(
    text: str | None,
    *,
    finish: str = "stop",
    reasoning: str | None = None,
    refusal: str | None = None,
    output_tokens: int = 20,
    reasoning_tokens: int = 0,
) -> dict[str, Any]:
    """A chat completion body."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if refusal is not None:
        message["refusal"] = refusal
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": output_tokens,
            "total_tokens": 1000 + output_tokens,
            "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        },
    }


class Server:
    """A scripted server on a free loopback port, with a record of its calls."""

    def __init__(self, script: Script, latency: float = 0.0) -> None:
        self.script = script
        self.latency = latency
        self.calls: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.address = ""
        self._seen: dict[str, int] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = json.dumps(body, sort_keys=True)
        self._seen[key] = self._seen.get(key, 0) + 1
        call = Call(body, dict(request.headers), request.path, self._seen[key])
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            answer = self.script(call)
        finally:
            self.in_flight -= 1
        if isinstance(answer, str):
            answer = completion(answer)
        if isinstance(answer, dict):
            answer = Response(body=answer)
        if answer.hang_up:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if isinstance(answer.body, str):
            return web.Response(text=answer.body, status=answer.status, headers=answer.headers)
        return web.json_response(answer.body, status=answer.status, headers=answer.headers)


@contextmanager
def serving(script: Script, latency: float = 0.0) -> Iterator[Server]:
    """Run a server in a thread for as long as the block runs."""
    server, loop, ready = Server(script, latency), asyncio.new_event_loop(), threading.Event()

    async def start() -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port = runner.addresses[0][1]
        server.address = f"http://127.0.0.1:{port}"
        ready.set()

    def work() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        time.sleep(0)
