"""One report for all tests of its pages: good runs, a hostile model, both protocols."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import HOSTILE, KEY, result_file, sample

from safepyramid.report.build import build_report
from servers import serving

ENVIRONMENT = {"LOCAL_API_KEY": KEY, "PATH": "/bin"}


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inspect logs of a model whose replies are attacks, in both protocols."""
    folder = tmp_path_factory.mktemp("hostile")
    answers = iter(range(10**9))
    with serving(lambda call: HOSTILE[next(answers) % len(HOSTILE)]) as server:
        for extra in (["--limit", "12"], ["--protocol", "per_rule", "--limit", "3"]):
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "safepyramid.cli"),
                    *("eval", "--model", "openai-api/local/<b>\u202ex", "--no-trial"),
                    *("--model-base-url", f"{server.address}/v1", "--log-dir", str(folder)),
                    *("--max-connections", "4", *extra),
                ],
                env={**os.environ, "HOME": str(folder), "LOCAL_API_KEY": KEY},
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=240,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Result files: two comparable runs, one per rule, one on a part of the cases."""
    folder, cases = tmp_path_factory.mktemp("results"), sample()
    return [
        result_file(folder / "a.jsonl", cases, model="lab/strong", seed=1, skill=0.97, failing=0.1),
        result_file(folder / "b.jsonl", cases, model="lab/weak", seed=2, skill=0.8),
        result_file(folder / "c.jsonl", cases, model="lab/strong", seed=3, protocol="per_rule"),
        result_file(folder / "d.jsonl", cases[:12], model="lab/other", seed=4, failing=0),
    ]


@pytest.fixture(scope="session")
def site(files: list[Path], logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on all of them."""
    folder = tmp_path_factory.mktemp("report") / "site"
    build_report([*files, logs], folder, dataset="sample", environ=ENVIRONMENT, draws=500)
    return folder
