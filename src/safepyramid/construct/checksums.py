"""Checksums of a folder that is published."""

import hashlib
from pathlib import Path

SUMS = "SHA256SUMS"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path) -> None:
    """Write the checksums of all files of a folder, in the form of `sha256sum`."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in paths]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8", newline="\n")
