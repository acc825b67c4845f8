"""A llama.cpp server of our own, in a child process that never outlives us.

The child reads its settings from its standard input and says its address on its standard output.
It ends when that input ends: the kernel closes the pipe however we die, a SIGKILL included. A
server inside our own process would need none of this, but a fault in native code would then take
the run down with it.
"""

import atexit
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from typing import IO

from safepyramid.errors import RunError

START_SECONDS = 600
"""How long a model may take to load."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is served."""

    path: str
    """The GGUF file."""
    context: int
    """Tokens of prompt and answer together, for each slot."""
    slots: int
    """Requests that are worked on at once."""
    threads: int
    """Processor threads; 0: all cores."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    process: subprocess.Popen[str]
    address: str
    """`http://127.0.0.1:PORT`."""
    key: str
    """What requests must carry as a bearer token: other users of the machine cannot know it."""


_servers: dict[Settings, Server] = {}
_lock = threading.Lock()


def serve(settings: Settings) -> Server:
    """The running server with these settings, started if there is none.

    Raises:
        RunError: The model cannot be loaded.
    """
    with _lock:
        running = _servers.get(settings)
        if running is None or running.process.poll() is not None:
            running = _servers[settings] = _start(settings)
        return running


@atexit.register
def stop_all() -> None:
    """Stop every server that this process started."""
    with _lock:
        for server in _servers.values():
            with contextlib.suppress(OSError):
                server.process.stdin.close()  # type: ignore[union-attr]
            server.process.kill()
            server.process.wait()
        _servers.clear()


def _start(settings: Settings) -> Server:
    key = secrets.token_hex(16)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "safepyramid.providers.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(START_SECONDS, process.kill)
        deadline.start()
        try:
            process.stdin.write(json.dumps({**asdict(settings), "key": key}) + "\n")
            process.stdin.flush()
            address = _said_address(process.stdout)
        except OSError:
            address = None
        finally:
            deadline.cancel()
        if address is None:
            process.kill()
            process.wait()
            raise RunError(_why(settings, log))
    return Server(process, address, key)


def _said_address(output: IO[str]) -> str | None:
    """What the child says once it is ready; None if it ends first."""
    for line in output:
        if line.startswith("http://"):
            return line.strip()
    return None


def _why(settings: Settings, log: IO[str]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().split("\n") if line.strip()]
    causes = [line for line in lines if " E " in line or "Error" in line] or lines or ["no reason"]
    reason = causes[0].rpartition(" E ")[2].strip()[:200]
    return (
        f"{settings.path!r} cannot be served ({reason}); give the path of a whole GGUF file and a "
        f"context ({settings.context}) that fits into memory"
    )


def _work() -> None:
    """What the child does."""
    parent = os.getppid()
    # Ctrl-C goes to every process of a terminal: the parent decides when the server ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]
    params.kv_unified = False
    params.ctx_shift = False  # A prompt that does not fit is an error, never cut.
    params.cache_ram_mib = 0  # By default, finished prompts are kept in up to 8 GiB.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        settings["threads"] or os.cpu_count() or 1
    )
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [settings["key"]]
    params.ui, params.verbosity = False, 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while os.getppid() == parent:
        time.sleep(1)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _work()
