"""What all tests share: a clean environment, the sample, and a way to run the command."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from running import KEY, Run, command
from safepyramid.dataset.load import load_benchmark
from safepyramid.schema import Case

# a busy machine is no fault of the code under test
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave helper modules alone: the search for doctests would import them a second time."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


@pytest.fixture(scope="session")
def sample() -> list[Case]:
    return load_benchmark("sample")[1]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a fresh user: own home, one key, no Inspect settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("INSPECT_", "HF_"))}
    home = tmp_path / "home"
    home.mkdir()
    return {
        **kept,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LOCAL_API_KEY": KEY,
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


@pytest.fixture
def safepyramid(environment: dict[str, str], tmp_path: Path) -> Run:
    """Run the command line in a process of its own."""

    def run(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            env={**environment, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )

    return run
