"""What the construction tests share: small runs on scripted models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted_models
from scripted_models import NAMES, SCRIPTS, Script, small

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
        build(BuildRequest(self.folder, settings, quiet=True, **request))
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
