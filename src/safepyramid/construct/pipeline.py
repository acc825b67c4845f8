"""Making a run with models, or going on with one."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from safepyramid.construct.asking import Caller
from safepyramid.construct.costs import bill_of, budget_from, require_prices
from safepyramid.construct.decisions import read_decisions
from safepyramid.construct.models import make_models, needed_roles
from safepyramid.construct.progress import Progress
from safepyramid.construct.records import Journal, write_manifest
from safepyramid.construct.runs import Run, make_all, open_run, run_async, summary, working_on
from safepyramid.construct.settings import Settings
from safepyramid.construct.work import STEPS, Outcome
from safepyramid.errors import RunError

CONNECTIONS = 100
"""Concurrent calls of one model that Inspect's adaptive limit may reach."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What `safepyramid build run` is asked to do."""

    folder: Path
    settings: Settings | None = None
    """None goes on under the folder's own."""
    last: str = STEPS[-1]
    cost_limit: float | None = None
    """US dollars for the whole folder, what earlier runs spent included."""
    max_connections: int | None = None
    """Of each model; adaptive if not given."""
    trial: bool = True
    """Try every model with one short call before the first question."""
    quiet: bool = False


def build(request: BuildRequest) -> tuple[list[Outcome], str]:
    """Make a run, or go on with one.

    Returns:
        Where each conversation stands, and why the run stopped early or was in vain (empty if it
        did not and was not).

    Raises:
        RunError: The folder's run was begun under other conditions, another process is at work
            on it, a model cannot be used, a cost limit cannot hold, or the folder cannot be
            written to.
    """
    with ExitStack() as held:
        try:
            request.folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(working_on(request.folder))
            run, caller = _prepared(request, held)
        except OSError as error:
            raise RunError(
                f"{str(request.folder)!r} cannot be written to ({error.strerror}); give another "
                "folder"
            ) from None
        return _work(request, run, caller)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: thousands of waiting calls were a third of the work to walk."""
    usual = gc.get_threshold()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _prepared(request: BuildRequest, held: ExitStack) -> tuple[Run, Caller]:
    """All that is checked and opened before the first call; `held` closes the journal."""
    run = open_run(request.folder, request.settings, create=True)
    models = make_models(run.settings.models.roles, request.max_connections)
    if request.cost_limit is not None:
        require_prices(role.model for role in run.settings.models.roles)
    write_manifest(request.folder, run.manifest)
    journal = held.enter_context(closing(Journal(request.folder, write=True)))
    limit = request.cost_limit
    return run, Caller(
        journal=journal,
        models=models,
        progress=Progress(len(run.made), quiet=request.quiet, bill=bill_of(journal.all())),
        untried=needed_roles(run.settings, request.last) if request.trial else (),
        budget=None if limit is None else budget_from(limit, journal.all()),
        cache=run.settings.cache,
    )


def _work(request: BuildRequest, run: Run, caller: Caller) -> tuple[list[Outcome], str]:
    outcomes: dict[str, Outcome] = {}
    progress = caller.progress

    def finished(outcome: Outcome) -> None:
        outcomes[outcome.made.id] = summary(outcome)
        progress.finished(outcome)

    async def work() -> None:
        at_once = 2 * (request.max_connections or CONNECTIONS)
        decisions = read_decisions(request.folder)
        async with anyio.create_task_group() as group:
            group.start_soon(progress.beat)
            await make_all(run, caller.ask, decisions, finished, last=request.last, at_once=at_once)
            group.cancel_scope.cancel()

    try:
        with progress, _rare_collections():
            run_async(work)
    except KeyboardInterrupt:
        raise RunError("stopped; what was finished is kept: the same command goes on") from None
    return [outcomes[made.id] for made in run.made], caller.stopped or progress.in_vain
