"""Benchmark files: find, load, check, write."""

from safepyramid.dataset.load import load_benchmark, write_benchmark

__all__ = ["load_benchmark", "write_benchmark"]
