"""What a scoring guard's threshold does, from one per-rule run and without a single new call.

    python examples/sweep_threshold.py sample logs/RUN.eval

Prints a line a threshold, from 0 to 1. FlexGuard's scores are divided by 100.
"""

import sys
from dataclasses import replace

from safepyramid.dataset import load_benchmark
from safepyramid.results.read import aggregate, read_results
from safepyramid.results.score import score_results
from safepyramid.schema import Judgment


def judged_at(judgment: Judgment, threshold: float) -> Judgment:
    score = judgment.verdict.score
    if score is None:  # no verdict, or none with a score: nothing to decide anew
        return judgment
    return replace(judgment, verdict=replace(judgment.verdict, violated=score > threshold))


def main(dataset: str, *files: str) -> None:
    _, cases = load_benchmark(dataset)
    results = read_results(files)
    print("threshold     RMR     RDR")
    for percent in range(0, 100, 10):
        predictions = dict(results.predictions)
        for case in cases:
            judgments = predictions[case.id].judgments if case.id in predictions else ()
            if judgments:
                judged = [judged_at(judgment, percent / 100) for judgment in judgments]
                predictions[case.id] = aggregate(case, judged)
        scores = score_results(replace(results, predictions=predictions), cases)
        cell = scores["groups"]["ALL"]
        shown = (
            f"{value:8.3f}" if value is not None else "       -"
            for value in (cell["rmr"], cell["rdr"])
        )
        print(f"{percent / 100:9.2f}", *shown, sep="")


if __name__ == "__main__":
    main(*sys.argv[1:])
