"""How busy the construction keeps a model's connections.

Scripted authors and validators answer after a fixed delay, behind Inspect's model layer and
without a wire. Ideal is `calls × latency / connections`: all connections busy all the time, which
no run reaches, since its first and its last calls have no company.

    python benchmarks/construction_throughput.py --connections 200 --conversations 200
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "construct"))
import scripted_models

from safepyramid.construct.pipeline import BuildRequest, build
from safepyramid.construct.settings import read_settings

VALIDATORS = ("one", "two", "three")


def run(connections: int, conversations: int, latency: float, folder: Path) -> dict[str, float]:
    """Make conversations and measure.

    All roles share one pool of connections, which is the limit that is tested.
    """
    scripted_models.LATENCY = latency
    scripted_models.POOLED = True
    scripted_models.SCRIPTS.update(dict.fromkeys((*VALIDATORS, "author"), scripted_models.author))
    roles = dict.fromkeys(("conversation", "l0", "l1", "l2"), "scripted/author")
    settings = read_settings(
        None,
        {
            "models": {**roles, "validators": [f"scripted/{name}" for name in VALIDATORS]},
            "conversations": conversations,
            "domains": ["fraud"],
        },
    )
    request = BuildRequest(folder, settings, max_connections=connections, quiet=True)
    before, spent = time.perf_counter(), time.process_time()
    outcomes, _ = build(request)
    wall, cpu = time.perf_counter() - before, time.process_time() - spent
    assert all(outcome.standing == "complete" for outcome in outcomes)
    calls = len(scripted_models.CALLS)
    ideal = calls * latency / connections
    return {
        "connections": connections,
        "conversations": conversations,
        "calls": calls,
        "seconds": round(wall, 1),
        "ideal_seconds": round(ideal, 1),
        "share_of_ideal": round(ideal / wall, 3),
        "cpu_ms_per_call": round(1000 * cpu / calls, 2),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--latency", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.connections, given.conversations, given.latency, Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
