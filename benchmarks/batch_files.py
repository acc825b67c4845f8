"""How long a full run takes to write as request files and to read back, and how much memory.

    python benchmarks/batch_files.py

The cases are the bundled sample's, repeated under new ids until there are as many judgments as the
published data has. Bounds: 60 s and 1 GiB for both together. Needs about 1 GB of disk.
"""

import json
import random
import resource
import sys
import tempfile
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from safepyramid.batch.files import write_batch
from safepyramid.batch.results import read_batch
from safepyramid.batch.write import BatchRun, open_batch
from safepyramid.dataset.load import load_benchmark, write_benchmark
from safepyramid.solvers import rule_questions

JUDGMENTS = 60_771
SECONDS = 60.0
MIB = 1024.0


def dataset(path: Path) -> None:
    _, sample = load_benchmark("sample")
    cases, judgments = [], 0
    for number, case in enumerate(cycle(sample)):
        if judgments >= JUDGMENTS:
            break
        cases.append(replace(case, id=f"copy{number}-{case.id}"))
        judgments += len(rule_questions(case))
    write_benchmark(path, {}, cases)


def result(name: str) -> str:
    text = json.dumps({"analysis": "The chatbot did so in turn 3. " * 10, "verdict": "violated"})
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"object": "chat.completion", "choices": [choice], "usage": {"completion_tokens": 90}}
    return json.dumps({"custom_id": name, "response": {"status_code": 200, "body": body}})


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, requests, results = (folder / n for n in ("data.json", "req.jsonl", "res.jsonl"))
        dataset(data)
        run = BatchRun("some/model", "per_rule", dataset=str(data))

        start = time.perf_counter()
        batch = open_batch(run)
        loaded = time.perf_counter() - start
        start = time.perf_counter()
        count, _ = write_batch(requests, batch, rule_questions)
        written = time.perf_counter() - start

        with requests.open("rb") as file:
            ids = [json.loads(line)["custom_id"] for line in file]
        random.Random(0).shuffle(ids)
        results.write_text("\n".join(map(result, ids)) + "\n", encoding="utf-8")
        del ids

        start = time.perf_counter()
        predictions, notes = read_batch(batch, rule_questions, [results])
        read = time.perf_counter() - start
        megabytes = requests.stat().st_size / 2**20
    assert not notes, notes
    assert {p.state.value for p in predictions} == {"answered"}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} judgments of {len(predictions):,} cases, {megabytes:,.0f} MiB of requests")
    print(f"load {loaded:.1f} s, write {written:.1f} s, read {read:.1f} s; peak {memory:,.0f} MiB")
    sys.exit(written + read > SECONDS or memory > MIB)


if __name__ == "__main__":
    main()
