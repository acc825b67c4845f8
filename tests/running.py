"""Running the command line in a process of its own."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

KEY = "sk-planted-0123456789abcdef"
"""A key that must never turn up in a file or a message."""

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: str | Path) -> Sequence[str]:
    return [sys.executable, "-m", "safepyramid.cli", *map(str, arguments)]
