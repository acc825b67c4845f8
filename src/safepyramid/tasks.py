"""The two protocols as Inspect tasks.

    inspect eval safepyramid/per_policy --model openai/gpt-5.5 -T level=L1
    inspect eval safepyramid/per_rule --model vllm/openai/gpt-oss-safeguard-20b -T guard=gpt-oss-safeguard

After SafePyramid (Zhang et al., 2026), arXiv 2606.29887, section 3.6. What a task takes is what
it measures; how to run (temperature, effort, connections, limits) is Inspect's.
"""

import json
from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.solver import Solver

from safepyramid import __version__
from safepyramid.dataset.check import require_clean
from safepyramid.dataset.load import case_to_dict, data_hash, load_benchmark
from safepyramid.guards import load_guard
from safepyramid.prompts.render import prompts_hash
from safepyramid.schema import Case, Protocol
from safepyramid.scorers import ASKED, rule_set
from safepyramid.solvers import ask_policy, ask_rules

TASK_VERSION = "1-A"
"""The number changes when results stop being comparable, the letter with the interface."""

_batch: Any = None


def set_batch(batch: Any) -> None:
    """Have the tasks that are made from now on in this process use batches, by Inspect's setting.

    A task's own setting is the only one that Inspect takes over on a retry as well.
    """
    global _batch
    _batch = batch


@task
def per_policy(
    dataset: str | None = None,
    level: str | list[str] | None = None,
    domain: str | list[str] | None = None,
    limit_cases: int | None = None,
    guard: str = "chat",
    prompts: str | None = None,
    options: dict[str, Any] | None = None,
    structured: bool = False,
) -> Task:
    """The whole policy in one call (the primary protocol).

    Args:
        dataset: A file, `sample` (bundled), or a Hugging Face dataset id; default the
            published benchmark.
        level: L0, L1, L2, or several; default all.
        domain: One or several of the data's domains; default all.
        limit_cases: The first n cases of the selection; default all.
        guard: Name of a guard (`safepyramid guards` lists them) or `file.py:NAME`.
        prompts: Folder of templates that replace the guard's own.
        options: The guard's options.
        structured: Ask for the answer in a JSON form that the provider enforces; off by default,
            since the protocol asks in plain words.
    """
    how: dict[str, Any] = {
        "guard": guard,
        "prompts": prompts,
        "options": options,
        "structured": structured,
    }
    return _task("per_policy", dataset, level, domain, limit_cases, how, ask_policy(**how))


@task
def per_rule(
    dataset: str | None = None,
    level: str | list[str] | None = None,
    domain: str | list[str] | None = None,
    limit_cases: int | None = None,
    guard: str = "chat",
    prompts: str | None = None,
    options: dict[str, Any] | None = None,
    structured: bool = False,
) -> Task:
    """One rule a call, with the rules that touch it; verdicts are aggregated to a set.

    Args:
        dataset: A file, `sample` (bundled), or a Hugging Face dataset id; default the
            published benchmark.
        level: L0, L1, L2, or several; default all.
        domain: One or several of the data's domains; default all.
        limit_cases: The first n cases of the selection; default all.
        guard: Name of a guard (`safepyramid guards` lists them) or `file.py:NAME`.
        prompts: Folder of templates that replace the guard's own.
        options: The guard's options.
        structured: Ask for the answer in a JSON form that the provider enforces; off by default,
            since the protocol asks in plain words.
    """
    how: dict[str, Any] = {
        "guard": guard,
        "prompts": prompts,
        "options": options,
        "structured": structured,
    }
    return _task("per_rule", dataset, level, domain, limit_cases, how, ask_rules(**how))


def _task(
    protocol: Protocol,
    dataset: str | None,
    level: str | list[str] | None,
    domain: str | list[str] | None,
    limit_cases: int | None,
    how: dict[str, Any],
    ask: Solver,
) -> Task:
    made = load_guard(how["guard"], how["prompts"], how["options"], structured=how["structured"])
    settings = made.settings(protocol)
    source, cases = load_benchmark(dataset, level=level, domain=domain, limit=limit_cases)
    require_clean(cases)
    return Task(
        dataset=MemoryDataset([sample_of(case, how) for case in cases], name=source_name(dataset)),
        solver=ask,
        scorer=rule_set(**how),
        config=GenerateConfig(**settings, batch=_batch),
        fail_on_error=False,
        score_on_error=True,
        version=TASK_VERSION,
        metadata={
            "safepyramid": __version__,
            "protocol": protocol,
            "guard": made.name,
            "prompts_hash": prompts_hash(made.prompts),
            "data_hash": data_hash(cases),
            "data_source": source["safepyramid"],
        },
    )


def source_name(dataset: str | None) -> str:
    """What a log calls the data: the last part of a path or id."""
    return "SafePyramid" if dataset is None else dataset.rstrip("/").rpartition("/")[2]


def sample_of(case: Case, how: Mapping[str, Any]) -> Sample:
    """A case as a sample. The model's messages are rendered by the solver.

    Args:
        case: Any case.
        how: What `load_guard` takes to make the guard that is asked; the scorer reads an old log by
            it.

    The case travels as one JSON text in a list: Inspect copies and abridges metadata many times a
    sample, and either a tree or a long bare text would cost a third of a sample's time.
    """
    row = case_to_dict(case)
    return Sample(
        id=case.id,
        input=f"{case.id}: {case.domain.replace('_', ' ')}, {case.level}, {len(case.rubric)} rules",
        target=[str(rule) for rule in row["ground_truth_violations"]],
        metadata={
            **{name: row[name] for name in ("domain", "level", "ground_truth_violations")},
            ASKED: [json.dumps(dict(how))],
            "case": [json.dumps(row, ensure_ascii=False)],
        },
    )
