"""The report of many made-up runs on many cases: seconds of each kind, memory, and sizes.

    python benchmarks/report_speed.py [RUNS] [CONVERSATIONS]

The data is the sample's, again and again, with texts of the published size; three runs in four are
per policy, the fourth is per rule.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "report"))

from made_up import benchmark_file, many_cases, result_file


def main() -> None:
    runs, conversations = (
        int(given) for given in (sys.argv[1:] + ["20", "1000"][len(sys.argv) - 1 :])
    )
    cases = many_cases(conversations)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = benchmark_file(folder / "benchmark.json", cases)
        files = [
            result_file(
                folder / f"run-{i}.jsonl",
                cases,
                model=f"lab/model-{i}",
                seed=i,
                skill=0.7 + i / 100,
                protocol="per_rule" if i % 4 == 3 else "per_policy",
            )
            for i in range(runs)
        ]
        site = folder / "site"
        command = [sys.executable, "-m", "safepyramid.cli", "report", *map(str, files)]
        started = time.perf_counter()
        subprocess.run([*command, "--dataset", str(data), "-o", str(site)], check=True)
        wall = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
        first = (site / "index.html").stat().st_size
    print(
        json.dumps(
            {
                "runs": runs,
                "cases": len(cases),
                "wall_s": round(wall, 1),
                "processor_s": round(used.ru_utime + used.ru_stime, 1),
                "memory_mib": round(used.ru_maxrss / 1024),
                "files": len(sizes),
                "site_mb": round(sum(sizes) / 1e6, 1),
                "first_page_mb": round(first / 1e6, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
