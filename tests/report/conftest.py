"""One report for all tests of its pages: good runs, a hostile model, both protocols."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from made_up import HOSTILE, KEY, result_file, sample

from safepyramid.report.build import build_report
from servers import serving

ENVIRONMENT = {"LOCAL_API_KEY": KEY, "PATH": "/bin"}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with result files, logs and the report on them; made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "report-tests"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            make_result_files(folder)
            make_hostile_logs(folder / "logs")
            build_report(
                [*sorted(folder.glob("*.jsonl")), folder / "logs"],
                folder / "site",
                dataset="sample",
                environ=ENVIRONMENT,
                draws=500,
            )
    return folder


@pytest.fixture(scope="session")
def files(made: Path) -> list[Path]:
    return sorted(made.glob("*.jsonl"))


@pytest.fixture(scope="session")
def logs(made: Path) -> Path:
    return made / "logs"


@pytest.fixture(scope="session")
def site(made: Path) -> Path:
    return made / "site"


def make_result_files(folder: Path) -> None:
    """Two comparable runs, one per rule, one on a part of the cases."""
    cases = sample()
    result_file(folder / "a.jsonl", cases, model="lab/strong", seed=1, skill=0.97, failing=0.1)
    result_file(folder / "b.jsonl", cases, model="lab/weak", seed=2, skill=0.8)
    result_file(folder / "c.jsonl", cases, model="lab/strong", seed=3, protocol="per_rule")
    result_file(folder / "d.jsonl", cases[:12], model="lab/other", seed=4, failing=0)


def make_hostile_logs(folder: Path) -> None:
    """Inspect logs of a model whose replies are attacks, in both protocols."""
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
                env={**os.environ, "HOME": str(folder.parent), "LOCAL_API_KEY": KEY},
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=240,
                check=False,
            )
            assert done.returncode == 0, done.stderr
