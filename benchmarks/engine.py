"""What the engine costs: processor time a case and a judgment, and wall time against the ideal.

    python benchmarks/engine.py per_policy --cases 1000 --latency 5 --connections 100
    python benchmarks/engine.py per_rule --cases 3000 --latency 0.2 --connections 500

A local server answers every call after the latency. The ideal is calls × latency / connections.
The server runs in a process of its own, on the same machine: its processor time is not counted,
but it takes a share of the cores. `wall` is the whole command, from its start to its table, without
the trial call; `eval` is from the first case to the last.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from inspect_ai.log import read_eval_log

from safepyramid.dataset.load import load_benchmark, write_benchmark
from safepyramid.schema import Case, RuleType

SERVER = """
import asyncio, sys
from aiohttp import web
latency = float(sys.argv[1])
async def answer(request):
    body = await request.read()
    await asyncio.sleep(latency)
    text = '{\\\\"verdict\\\\": \\\\"not_violated\\\\"}' if b"The target rule" in body else '{\\\\"violated_rules\\\\": [3]}'
    reply = ('{"id":"1","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,'
             '"message":{"role":"assistant","content":"' + text + '"},"finish_reason":"stop"}],'
             '"usage":{"prompt_tokens":3000,"completion_tokens":12,"total_tokens":3012}}')
    return web.Response(text=reply, content_type="application/json")
async def main():
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def many(cases: list[Case], count: int) -> list[Case]:
    """The sample's cases again and again, under ids of their own."""
    copies = []
    for number in range(count):
        case = cases[number % len(cases)]
        case_id = (
            f"{case.id[:4]}-{number // len(cases) + 100:03d}{case.id[5:8]}-{case.level.lower()}"
        )
        copies.append(replace(case, id=case_id))
    return copies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("protocol", choices=["per_policy", "per_rule"])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=100)
    given = parser.parse_args()
    cases = many(load_benchmark("sample")[1], given.cases)
    calls = len(cases)
    if given.protocol == "per_rule":
        calls = sum(
            kind is not RuleType.CONDITIONAL for case in cases for kind in case.rule_types.values()
        )
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "benchmark.json"
        write_benchmark(data, {}, cases)
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(given.latency)], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        command = [
            *(sys.executable, "-m", "safepyramid.cli", "eval", "--protocol", given.protocol),
            *("--dataset", str(data), "--model", "openai-api/local/m", "--log-dir", folder),
            *("--model-base-url", f"http://127.0.0.1:{port}/v1"),
            *("--max-connections", str(given.connections), "--no-trial"),
        ]
        started = time.monotonic()
        done = subprocess.run(command, env={**os.environ, "LOCAL_API_KEY": "none"}, check=False)
        wall = time.monotonic() - started
        server.kill()
        server.wait()
        (log,) = Path(folder).glob("*.eval")
        stats = read_eval_log(str(log), header_only=True).stats
    began, ended = map(datetime.fromisoformat, (stats.started_at, stats.completed_at))
    inside = (ended - began).total_seconds()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ideal = calls * given.latency / given.connections
    print(
        json.dumps(
            {
                "protocol": given.protocol,
                "exit": done.returncode,
                "cases": len(cases),
                "calls": calls,
                "connections": given.connections,
                "latency_s": given.latency,
                "wall_s": round(wall, 1),
                "ideal_s": round(ideal, 1),
                "wall_to_ideal": round(wall / ideal, 2) if ideal else None,
                "eval_s": inside,
                "eval_to_ideal": round(inside / ideal, 2) if ideal else None,
                "peak_memory_mib": round(used.ru_maxrss / 1024),
            }
        )
    )


if __name__ == "__main__":
    main()
