"""What has changed from one release to the next, case by case."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.dataset.load import load_benchmark
from safepyramid.errors import DataError
from safepyramid.schema import Case, RuleType

FILE = "errata.json"
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


def changes(before: Iterable[Case], after: Iterable[Case]) -> list[dict[str, Any]]:
    """The differences between two releases that bear on results, by case id.

    Returns:
        One entry for each case that came, went, or whose conversation, policy, ground truth, rule
        types and pairings (`rubric`) or failure modes are another; empty for releases that score
        alike, diagnostics included.
    """
    old, new = {case.id: case for case in before}, {case.id: case for case in after}
    found: list[dict[str, Any]] = []
    for id in sorted(old.keys() | new.keys()):
        if id not in new:
            found.append({"case": id, "change": "removed"})
        elif id not in old:
            found.append({"case": id, "change": "added"})
        else:
            found += [{"case": id, **change} for change in _changed(old[id], new[id])]
    return found


def _changed(old: Case, new: Case) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"change": name}
        for name in ("conversation", "policy", "failure_mode_metadata")
        if getattr(old, name) != getattr(new, name)
    ]
    if _kinds(old) != _kinds(new):
        found.append({"change": "rubric"})
    was, now = sorted(old.ground_truth_violations), sorted(new.ground_truth_violations)
    if was != now:
        found.append({"change": "ground_truth_violations", "was": was, "now": now})
    return found


def _kinds(case: Case) -> dict[int, tuple[RuleType, frozenset[int]]]:
    return {entry.rule: (entry.type, frozenset(entry.paired_with)) for entry in case.rubric}


def as_version(text: str) -> tuple[int, ...]:
    """A version as numbers to compare: `1.10` is higher than `1.9`, and `1.0` the same as `1`.

    Raises:
        DataError: It is not made of numbers and dots.
    """
    if not _VERSION.fullmatch(text):
        raise DataError(f"version is {text!r}, must be numbers with dots, such as 1.0 or 2026.11")
    numbers = [int(part) for part in text.split(".")]
    while numbers[1:] and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def errata(version: str, cases: Sequence[Case], previous: Path | None) -> dict[str, Any]:
    """The content of a release's errata file: all changes since the first release.

    Args:
        version: Of this release.
        cases: Of this release.
        previous: The folder of the release before; none for the first.

    Raises:
        DataError: That folder is no release, or this version is no higher than its own.
    """
    own = as_version(version)
    if previous is None:
        return {"version": version, "previous": None, "entries": []}
    earlier = _read(previous / FILE)
    if own <= as_version(earlier["version"]):
        raise DataError(
            f"{previous} has version {earlier['version']}, so {version} will not do; give this "
            "release a higher --version"
        )
    _, before = load_benchmark(previous / "benchmark.json")
    entries = [{"version": version, **change} for change in changes(before, cases)]
    return {
        "version": version,
        "previous": earlier["version"],
        "entries": [*earlier["entries"], *entries],
    }


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found["entries"], list) or not isinstance(found["version"], str):
            raise KeyError
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} is no errata file of a release; give the release's folder"
        ) from None
    return found
