"""`score` on 3,000 result lines against a plain `json.load` of the same data file.

    python benchmarks/score_speed.py BENCHMARK.json [ROUNDS]

Each is timed as a process of its own, in turn, and the least of the rounds is kept.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safepyramid.dataset.load import load_benchmark
from safepyramid.results.read import write_results
from safepyramid.schema import Prediction, State


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    data, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    _, cases = load_benchmark(data)
    draw = random.Random(0)
    predictions = {}
    for case in cases:
        rules = sorted(case.rule_types)
        violated = frozenset(draw.sample(rules, min(6, len(rules))))
        predictions[case.id] = Prediction(case.id, State.ANSWERED, violated)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        write_results(lines, predictions.values(), model="bench")
        score = [
            sys.executable,
            "-m",
            "safepyramid.cli",
            "score",
            str(lines),
            "--dataset",
            data,
            "--json",
        ]
        plain = [sys.executable, "-c", f"import json; json.load(open({data!r}, encoding='utf-8'))"]
        times = [(seconds(plain), seconds(score)) for _ in range(rounds)]
    least_plain, least_score = (min(column) for column in zip(*times, strict=True))
    print(
        json.dumps(
            {
                "cases": len(cases),
                "file_mb": round(Path(data).stat().st_size / 1e6, 1),
                "json_load_s": round(least_plain, 2),
                "score_s": round(least_score, 2),
                "allowed_s": round(2 * least_plain + 0.3, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
