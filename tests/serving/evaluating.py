"""The small cases in a file, and an evaluation of them through Inspect against any server."""

from pathlib import Path
from typing import Any

import pytest
from small_cases import CASES, Evaluate

from safepyramid.dataset.load import write_benchmark
from safepyramid.schema import Prediction


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    path = tmp_path / "cases.json"
    write_benchmark(path, {}, CASES)
    return str(path)


@pytest.fixture
def evaluate(dataset: str, tmp_path: Path) -> Evaluate:
    """Evaluate, and give the predictions by case id."""

    def run(
        model: str, address: str | None = None, protocol: str = "per_policy", **given: Any
    ) -> dict[str, Prediction]:
        from inspect_ai import eval as inspect_eval

        import safepyramid.providers.entries  # noqa: F401
        from safepyramid.results.read import read_results

        task_args = {"dataset": dataset, "limit_cases": 1, **given.pop("task_args", {})}
        log = inspect_eval(
            f"safepyramid/{protocol}",
            model=model,
            model_base_url=address,
            task_args=task_args,
            log_dir=str(tmp_path / "logs"),
            display="none",
            **{"max_retries": 0, **given},
        )[0]
        return dict(read_results([log.location]).predictions)

    return run
