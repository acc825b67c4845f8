"""What the construction tests share: small runs on scripted models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import scripted_models
from click.testing import CliRunner
from scripted_models import NAMES, SCRIPTS, Script, small

from safepyramid.cli.build import build as build_command
from safepyramid.cli.main import main
from safepyramid.construct.pipeline import BuildRequest, build
from safepyramid.construct.runs import load
from safepyramid.construct.settings import settings_from
from safepyramid.construct.work import Outcome


class Lab:
    """A run folder, the scripts of its models, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = small()

    def script(self, **scripts: Script) -> None:
        """Let models follow scripts of their own; the others do all as they should."""
        SCRIPTS.update(scripts)

    def make(self, **request: Any) -> list[Outcome]:
        """Make the run, or go on with it; outcomes with all their texts."""
        settings = settings_from(self.settings, "test")
        request = {"trial": False, "quiet": True, **request}
        build(BuildRequest(self.folder, settings, **request))
        return load(self.folder, keep=lambda outcome: outcome).outcomes

    @property
    def calls(self) -> list[tuple[str, str]]:
        return scripted_models.CALLS


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    scripted_models.CALLS.clear()
    SCRIPTS.clear()
    SCRIPTS.update(dict.fromkeys(NAMES, scripted_models.author))
    yield Lab(tmp_path / "run")
    SCRIPTS.clear()


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")

    def run(*arguments):
        # A group of its own: an invoked command remembers how it was asked for help.
        group = type(main)("safepyramid", commands={"build": build_command})
        if arguments[0] == "run" and "--trial" not in arguments:
            arguments = (*arguments, "--no-trial")
        done = CliRunner().invoke(group, ["build", *map(str, arguments)], catch_exceptions=False)
        return Done(done.exit_code, done.stdout, done.stderr)

    return run
