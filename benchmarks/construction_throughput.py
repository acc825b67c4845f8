"""How busy the construction keeps a model's connections.

Scripted authors and validators answer after a fixed delay: in this process behind Inspect's model
layer and without a wire, or with `--http` in a process of their own behind the real client. Ideal is
`calls × latency / connections`: all connections busy all the time, which no run reaches, since its
first and its last calls have no company.

    python benchmarks/construction_throughput.py --connections 200 --conversations 200 --http
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "construct"))
import scripted_models
from inspect_ai.model import modelapi
from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI

from safepyramid.construct.pipeline import BuildRequest, build
from safepyramid.construct.settings import Settings, read_settings

VALIDATORS = ("one", "two", "three")


@modelapi(name="wire")
def wire() -> type[OpenAICompatibleAPI]:
    class Wire(OpenAICompatibleAPI):
        """The client of any OpenAI-compatible server, with one pool of connections for all models."""

        def connection_key(self) -> str:
            return "all"

    return Wire


@contextmanager
def served(latency: float) -> Iterator[str]:
    """A server in a process of its own; its processor time is printed at the end."""
    script = Path(__file__).with_name("scripted_server.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(latency)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()
        answered, most = process.stdout.readline().split()
        process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    each = 1000 * (used.ru_utime + used.ru_stime) / int(answered)
    print(f"server: {answered} calls, at most {most} at once, {each:.2f} ms each", file=sys.stderr)


def settings_for(conversations: int, address: str | None) -> Settings:
    """All roles share one pool of connections, which is the limit that is tested."""

    def role(name: str) -> Any:
        if address is None:
            return f"scripted/{name}"
        return {"model": f"wire/local/{name}", "base_url": address}

    roles = dict.fromkeys(("conversation", "l0", "l1", "l2"), role("author"))
    return read_settings(
        None,
        {
            "models": {**roles, "validators": [role(name) for name in VALIDATORS]},
            "conversations": conversations,
            "domains": ["fraud"],
        },
    )


def run(connections: int, latency: float, settings: Settings, folder: Path) -> dict[str, float]:
    """Make conversations and measure."""
    request = BuildRequest(folder, settings, max_connections=connections, trial=False, quiet=True)
    before, spent = time.perf_counter(), time.process_time()
    outcomes, _ = build(request)
    wall, cpu = time.perf_counter() - before, time.process_time() - spent
    assert all(outcome.standing == "complete" for outcome in outcomes)
    files = (path for path in folder.glob("*.jsonl"))
    calls = sum(text.count('"stop_reason"') for text in map(Path.read_text, files))
    ideal = calls * latency / connections
    return {
        "connections": connections,
        "conversations": settings.conversations,
        "calls": calls,
        "seconds": round(wall, 1),
        "ideal_seconds": round(ideal, 1),
        "share_of_ideal": round(ideal / wall, 3),
        "cpu_seconds": round(cpu, 1),
        "cpu_ms_per_call": round(1000 * cpu / calls, 2),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--http", action="store_true", help="Over a wire, to a server of its own.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.http:
            os.environ.setdefault("LOCAL_API_KEY", "none")
            with served(given.latency) as address:
                settings = settings_for(given.conversations, address)
                found = run(given.connections, given.latency, settings, Path(folder))
        else:
            scripted_models.LATENCY, scripted_models.POOLED = given.latency, True
            names = (*VALIDATORS, "author")
            scripted_models.SCRIPTS.update(dict.fromkeys(names, scripted_models.author))
            settings = settings_for(given.conversations, None)
            found = run(given.connections, given.latency, settings, Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
