"""Hand-written sources to benchmark files."""

from pathlib import Path
from tempfile import TemporaryDirectory

from safepyramid.construct.assemble import assemble_all, read_sources
from safepyramid.dataset.load import write_benchmark
from safepyramid.errors import DataError

FILES = ("benchmark.json", "benchmark_with_evidence.json")


def compile_sources(folder: Path, output: Path, version: str) -> int:
    """Write both benchmark files of a folder of sources.

    Args:
        folder: Holds `*.yaml` sources.
        output: Where the files go.
        version: Stands in their metadata.

    Returns:
        The number of cases.

    Raises:
        DataError: A source cannot be read or is wrong; all that is wrong is named.
    """
    cases = assemble_all(read_sources(folder))
    for name in FILES:
        write_benchmark(output / name, {"version": version}, cases, evidence="evidence" in name)
    return len(cases)


def require_fresh(folder: Path, output: Path, version: str) -> int:
    """Check that the benchmark files are what their sources make.

    Returns:
        The number of cases.

    Raises:
        DataError: A source is wrong, or a file is missing or stale.
    """
    with TemporaryDirectory() as place:
        count = compile_sources(folder, Path(place), version)
        for name in FILES:
            made, there = Path(place) / name, output / name
            if not there.exists() or there.read_bytes() != made.read_bytes():
                raise DataError(
                    f"{there} is {'stale' if there.exists() else 'missing'}: run "
                    f"`safepyramid build assemble {folder} -o {output}`"
                )
    return count
