"""Which share of each per-rule prompt its case's other prompts share as a prefix.

python benchmarks/shared_prefix.py [DATASET]
"""

import json
import sys
from itertools import pairwise
from os.path import commonpath

from safepyramid.dataset.load import load_benchmark
from safepyramid.guards import load_guard
from safepyramid.guards.base import rule_questions
from safepyramid.tokens import estimate_tokens


def main() -> None:
    _, cases = load_benchmark(sys.argv[1] if len(sys.argv) > 1 else "sample")
    adapter = load_guard("chat").per_rule
    assert adapter is not None
    shared: dict[str, list[float]] = {}
    for case in cases:
        texts = [
            "\0".join(message.text for message in adapter.render(question).messages)
            for question in rule_questions(case)
        ]
        common = min((commonpath(pair) for pair in pairwise(texts)), key=len)
        shared.setdefault(case.level, []).extend(
            estimate_tokens(common) / estimate_tokens(text) for text in texts
        )
    shared["all"] = [share for shares in shared.values() for share in shares]
    print(
        json.dumps(
            {
                level: {
                    "prompts": len(s),
                    "mean": round(sum(s) / len(s), 3),
                    "least": round(min(s), 3),
                }
                for level, s in shared.items()
            }
        )
    )


if __name__ == "__main__":
    main()
