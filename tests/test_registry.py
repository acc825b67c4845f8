"""What Inspect finds under our name, and what `import safepyramid` offers."""

import subprocess
import sys

import pytest

import safepyramid


def test_everything_that_inspect_should_find_is_registered() -> None:
    # a broken import of _registry looks like "no tasks found" from outside
    from inspect_ai._util.registry import registry_lookup

    import safepyramid._registry  # noqa: F401

    for kind, names in {
        "task": ("per_policy", "per_rule"),
        "solver": ("ask_policy", "ask_rules"),
        "scorer": ("rule_set",),
    }.items():
        for name in names:
            assert registry_lookup(kind, f"safepyramid/{name}") is not None, name  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [n for n in safepyramid.__all__ if n != "__version__"])
def test_every_public_name_loads(name: str) -> None:
    assert getattr(safepyramid, name) is not None
    assert name in dir(safepyramid)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = safepyramid.nothing


HEAVY = ("inspect_ai", "numpy", "pandas", "pyarrow", "scipy", "huggingface_hub", "rich")


@pytest.mark.parametrize(
    "module",
    [
        "safepyramid",
        "safepyramid.cli",
        "safepyramid.results.score",
        "safepyramid.dataset.check",
        "safepyramid.guards",
    ],
)
def test_what_starts_at_once_imports_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}; from safepyramid import load_benchmark; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
