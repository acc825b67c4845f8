"""Who may import whom. Read top to bottom, the package is the life of the data."""

import ast
from pathlib import Path

import pytest

import safepyramid

ROOT = Path(safepyramid.__file__).parent

INSPECT = {
    "_registry",
    "scorers",
    "solvers",
    "tasks",
    "results.logs",
    "runs.evaluate",
    "runs.resume",
    "runs.trial",
    "construct.asking",
    "construct.models",
}
"""The modules that may import `inspect_ai`, beside everything in `providers`."""

ENGINE = {
    "safepyramid.solvers",
    "safepyramid.scorers",
    "safepyramid.tasks",
    "safepyramid.runs.evaluate",
}

MAY_NOT: dict[str, set[str]] = {
    # the pure core knows nothing above it
    "schema": {"safepyramid"},
    "policy": {"safepyramid.dataset", "safepyramid.guards", "safepyramid.metrics", *ENGINE},
    "answers": {
        "safepyramid.dataset",
        "safepyramid.policy",
        "safepyramid.guards",
        *ENGINE,
    },
    "dataset": {"safepyramid.guards", "safepyramid.metrics", "safepyramid.prompts", *ENGINE},
    "metrics": {
        "safepyramid.dataset",
        "safepyramid.guards",
        "safepyramid.results",
        *ENGINE,
    },
    "prompts": {"safepyramid.guards", "safepyramid.dataset", *ENGINE},
    "guards": {"safepyramid.construct", "safepyramid.analysis", "safepyramid.report", *ENGINE},
    "construct": {"safepyramid.analysis", "safepyramid.report", *ENGINE},
    "analysis": {"safepyramid.construct", "safepyramid.report", *ENGINE},
    "report": {"safepyramid.construct", *ENGINE},
}


def modules() -> list[str]:
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in ROOT.rglob("*.py")
    )


def imports(module: str) -> set[str]:
    path = ROOT / Path(*module.split("."))
    file = path.with_suffix(".py")
    file = file if file.exists() else path / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


@pytest.mark.parametrize("module", [m for m in modules() if m != "__init__"])
def test_inspect_is_imported_only_where_it_may_be(module: str) -> None:
    if module in INSPECT or module.startswith("providers"):
        return
    users = {name for name in imports(module) if name.split(".")[0] == "inspect_ai"}
    assert not users, f"{module} may not import {users}"


@pytest.mark.parametrize("layer", MAY_NOT)
def test_lower_layers_do_not_know_the_upper_ones(layer: str) -> None:
    for module in modules():
        if module != layer and not module.startswith(f"{layer}."):
            continue
        wrong = {
            name
            for name in imports(module)
            for banned in MAY_NOT[layer]
            if name == banned or name.startswith(f"{banned}.")
        }
        if layer == "schema":
            wrong = {name for name in wrong if name.startswith("safepyramid")}
        assert not wrong, f"{module} may not import {sorted(wrong)}"


def test_inspect_s_users_exist() -> None:
    assert set(modules()) >= INSPECT
