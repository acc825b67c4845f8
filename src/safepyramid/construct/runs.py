"""A run folder: under which settings it is made, and what its records have led to so far."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import anyio
from filelock import FileLock, Timeout

from safepyramid.construct.assemble import assemble
from safepyramid.construct.author import Materials
from safepyramid.construct.checklists import load_checklists
from safepyramid.construct.decisions import Decisions, read_decisions
from safepyramid.construct.draws import Assignment, assignments
from safepyramid.construct.flow import Siblings, make_pyramid
from safepyramid.construct.questions import Ask, Question, Templates
from safepyramid.construct.records import (
    MANIFEST,
    Journal,
    Record,
    read_manifest,
)
from safepyramid.construct.scenarios import Scenario, load_scenarios
from safepyramid.construct.settings import Settings, settings_from
from safepyramid.construct.work import STEPS, Outcome, Work
from safepyramid.errors import RunError, SafepyramidError
from safepyramid.schema import Level
from safepyramid.secrets import make_scrub, secret_in

FORMAT = 1
"""Of run folders."""
AT_ONCE = 16
"""Conversations that are read at a time."""

T = TypeVar("T")

_PLACES = ("scenarios", "prompts")
"""Settings that say where something lies: what counts is what lies there."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that a run is made from."""

    settings: Settings
    materials: Materials
    made: tuple[Assignment, ...]
    manifest: Mapping[str, Any]


def load_run(settings: Settings) -> Run:
    """Read everything that settings name.

    Raises:
        SafepyramidError: Something is missing or wrong; nothing has been called.
    """
    scenarios = load_scenarios(settings.scenarios)
    made = assignments(settings, scenarios)
    templates = Templates(settings.prompts)
    manifest = {
        "format": FORMAT,
        "settings": settings.model_dump(mode="json"),
        "prompts": templates.hashes(),
        "checklists": _folder_hash("checklists"),
        "variation": _text_hash((_data() / "variation.yaml").read_text(encoding="utf-8")),
        "scenarios": _scenarios_hash(scenarios, made),
    }
    return Run(settings, Materials(settings, templates, load_checklists()), made, manifest)


def _data() -> Any:
    return files("safepyramid.construct")


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def _folder_hash(name: str) -> str:
    entries = sorted((_data() / name).iterdir(), key=lambda entry: str(entry.name))
    return _text_hash("\0".join(entry.read_text(encoding="utf-8") for entry in entries))


def _scenarios_hash(scenarios: Sequence[Scenario], made: Sequence[Assignment]) -> str:
    used = {item.domain for item in made}
    chosen = [asdict(scenario) for scenario in scenarios if scenario.domain in used]
    return _text_hash(json.dumps(chosen, sort_keys=True))


def open_run(folder: Path, settings: Settings | None = None, *, create: bool = False) -> Run:
    """The run of a folder.

    Args:
        folder: The run folder.
        settings: What the run is meant to be; the folder's own if not given.
        create: Where there is none, take the settings for a new one. Nothing is written.

    Raises:
        RunError: There is no run, or one under other settings, prompts, checklists or scenarios.
    """
    found = read_manifest(folder)
    if found is None:
        if not create:
            raise RunError(f"{folder} is no run folder; begin one with `safepyramid build run`")
        return load_run(settings or Settings())
    if found.get("format") != FORMAT:
        raise RunError(
            f"{folder} has format {found.get('format')!r}, this version reads {FORMAT}; "
            "use the version that made it"
        )
    run = load_run(settings or settings_from(found.get("settings", {}), f"{folder}/{MANIFEST}"))
    if difference := _difference(found, run.manifest):
        raise RunError(
            f"{folder} was begun otherwise: {difference}; restore that, or begin anew in another "
            "folder"
        )
    return run


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first thing in which two manifests differ; empty if they agree."""
    for name, before, after in _pairs(then, now, ""):
        if before != after and name.removeprefix("settings.") not in _PLACES:
            if secret_in({name: [before, after]}) is not None:
                return f"{name} is another, and looks like a secret"
            return make_scrub()(f"{name} was {before!r}, is {after!r}")
    return ""


def _pairs(then: Any, now: Any, name: str) -> list[tuple[str, Any, Any]]:
    if not (isinstance(then, dict) and isinstance(now, dict)):
        return [(name, then, now)]
    return [
        pair
        for key in dict.fromkeys([*then, *now])
        for pair in _pairs(then.get(key), now.get(key), f"{name}.{key}".removeprefix("."))
    ]


async def make_all(
    run: Run,
    ask: Ask,
    decisions: Decisions,
    finished: Callable[[Outcome], None],
    *,
    last: str = STEPS[-1],
    at_once: int | None = None,
) -> None:
    """Take every conversation as far as it goes, each at its own pace.

    Args:
        run: What to make.
        ask: How questions get answered.
        decisions: What people have decided.
        finished: Called with each outcome as it comes, in any order.
        last: The step after which to stop.
        at_once: How many conversations are under way at a time; all if not given.
    """
    siblings = Siblings(run.made, run.settings.near_duplicate)
    limiter = anyio.CapacityLimiter(at_once or len(run.made))

    async def make(made: Assignment) -> None:
        async with limiter:
            work = Work(run.materials, made, ask, decisions, last)
            finished(await make_pyramid(work, siblings))

    async with anyio.create_task_group() as group:
        for made in run.made:
            group.start_soon(make, made)


def summary(outcome: Outcome) -> Outcome:
    """An outcome without the texts, which are large."""
    return replace(outcome, source=None, votes={}, rated=())


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run to the end; an error of our own comes out as itself, not in a group."""
    try:
        return anyio.run(work)
    except BaseExceptionGroup as group:
        ours = group.subgroup(SafepyramidError)
        while isinstance(ours, BaseExceptionGroup):
            ours = ours.exceptions[0]  # type: ignore[assignment]
        raise ours or group from None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run with its records, read only."""

    run: Run
    journal: Journal
    decisions: Decisions
    outcomes: list[Outcome]
    """In the order of `run.made`."""
    answers: list[Record]
    """The answers that these are made of, without replies and output. The journal may hold more:
    some were set aside, or belong to questions that are put otherwise now."""


def load(folder: Path, keep: Callable[[Outcome], Outcome] = summary) -> Loaded:
    """Read a run folder whole: what its records have led to, without asking anything.

    Args:
        folder: The run folder.
        keep: What to keep of each outcome; by default all but the texts.

    Raises:
        SafepyramidError: It is none, or something in it or that it names cannot be read.
    """
    run, journal, decisions = open_run(folder), Journal(folder), read_decisions(folder)
    found: dict[str, Outcome] = {}

    answers: dict[tuple[str, str], Record] = {}

    async def ask(question: Question) -> Record | None:
        record = journal.get(question.stage, question.id, question.asked)
        if record is not None:
            answers[record.stage, record.id] = replace(record, calls=(), output=None)
        return record

    def finished(outcome: Outcome) -> None:
        if outcome.source is not None and decisions.on_cases(outcome.made.id):
            for level in Level:
                decisions.reviewed(assemble(outcome.source, level))
        found[outcome.made.id] = keep(outcome)

    async def replay() -> None:
        await make_all(run, ask, decisions, finished, at_once=AT_ONCE)

    run_async(replay)
    outcomes = [found[made.id] for made in run.made]
    return Loaded(run, journal, decisions, outcomes, list(answers.values()))


def withdraw(folder: Path, stage: str, only: Sequence[str] = ()) -> int:
    """Set the answers of a stage aside, so that they are asked for again.

    Args:
        folder: The run folder.
        stage: One of `STAGES`.
        only: Ids of conversations; all if empty.

    Returns:
        How many answers there were.

    Raises:
        RunError: It is no run folder, another process is at work on it, or an id is unknown.
    """
    run = open_run(folder)
    if unknown := sorted(set(only) - {made.id for made in run.made}):
        raise RunError(f"unknown conversation {', '.join(unknown)}; this run makes {_span(run)}")
    with working_on(folder):
        journal = Journal(folder, write=True)
        chosen = [
            record
            for record in journal.current()
            if record.stage == stage
            and record.state != "withdrawn"
            and (not only or record.id.partition("/")[0] in only)
        ]
        for record in chosen:
            journal.append(replace(record, state="withdrawn", reason="", calls=(), faults={}))
        journal.close()
    return len(chosen)


def _span(run: Run) -> str:
    ids = [made.id for made in run.made]
    return f"{ids[0]} to {ids[-1]}"


@contextmanager
def working_on(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run folder.

    Raises:
        RunError: One is at work on it.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(
            f"another process is writing to {str(folder)!r}; wait for it, or use another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()
