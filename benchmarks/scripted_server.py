"""An OpenAI-compatible server that answers as the scripted author does, after a fixed delay.

It does as little as a server can, so that it is not what a benchmark measures: one process, one
event loop, no framework. It prints its port, then `calls answered, most at once` on SIGTERM.

    python benchmarks/scripted_server.py LATENCY
"""

import asyncio
import json
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "construct"))
import scripted_models


class Server(asyncio.Protocol):
    """One connection: requests one after another, each answered `latency` seconds after it came."""

    latency = 1.0
    answered = under_way = most = 0

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        head, gap, rest = self.buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        lines = head.lower().split(b"\r\n")
        size = next(
            int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")
        )
        if len(rest) < size:
            return
        self.buffer = rest[size:]
        Server.under_way += 1
        Server.most = max(Server.most, Server.under_way)
        loop = asyncio.get_running_loop()
        due = loop.time() + Server.latency
        body = answer(json.loads(rest[:size]))
        loop.call_at(due, self.reply, body)

    def reply(self, body):
        Server.under_way -= 1
        Server.answered += 1
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )


def answer(request):
    """A chat completion body."""
    contents = (message["content"] for message in request["messages"])
    told = "\n\n".join(
        text if isinstance(text, str) else "".join(part["text"] for part in text)
        for text in contents
    )
    message = {"role": "assistant", "content": scripted_models.author(told)}
    tokens = scripted_models.INPUT_TOKENS, scripted_models.OUTPUT_TOKENS
    return json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens[0],
                "completion_tokens": tokens[1],
                "total_tokens": sum(tokens),
            },
        }
    ).encode()


async def main():
    """Serve until SIGTERM."""
    Server.latency = float(sys.argv[1])
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, done.set)
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await done.wait()
    print(Server.answered, Server.most, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
