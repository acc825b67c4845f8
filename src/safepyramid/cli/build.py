"""`safepyramid build`: make a benchmark with models, by hand, or without either."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from safepyramid.terminal import one_line, say

_MODELS = ("conversation", "l0", "l1", "l2")
_STEPS = ("conversation", "L0", "L1", "L2")
_STAGES = ("conversation", "l0", "l1", "framework", "l2", "repair", "vote")


@click.group()
def build() -> None:
    """Make a benchmark of your own.

    \b
    With language models, from scenarios to a release:
      safepyramid build plan --settings mine.yaml          calls, tokens and a price range
      safepyramid build run my-run --settings mine.yaml    make it; the same command goes on
      safepyramid build status my-run                      what waits, what failed, and why
      safepyramid build release my-run -o my-benchmark     a folder to publish
    \b
    Otherwise:
      safepyramid build assemble sources -o my-benchmark   from files written by hand
      safepyramid build demo -o my-benchmark               without any model
    """


def _settings_options(command: Any) -> Any:
    options = (
        click.option("--settings", type=click.Path(dir_okay=False), help="YAML file of settings."),
        click.option(
            "--model",
            "models",
            multiple=True,
            metavar="ROLE=MODEL",
            help="Who writes: conversation, l0, l1 or l2, and a model as Inspect names it; repeatable.",
        ),
        click.option(
            "--validator",
            "validators",
            multiple=True,
            metavar="MODEL",
            help="Who checks; repeatable, and replaces the whole pool.",
        ),
        click.option("--conversations", type=click.IntRange(1), help="How many for each domain."),
        click.option("--domain", "domains", multiple=True, help="Only this domain; repeatable."),
        click.option("--scenarios", type=click.Path(), help="Folder of a catalogue of your own."),
        click.option("--seed", type=int, help="What is drawn at random is drawn from it."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _settings(given: dict[str, Any]) -> Any:
    """The settings that were asked for; None if nothing was."""
    from safepyramid.construct.settings import read_settings

    options: dict[str, Any] = {}
    for item in given["models"]:
        role, equals, model = item.partition("=")
        if not equals or role not in _MODELS:
            raise click.UsageError(f"{item!r} is not ROLE=MODEL; roles: {', '.join(_MODELS)}")
        options[f"models.{role}"] = model
    if given["validators"]:
        options["models.validators"] = list(given["validators"])
    for name in ("conversations", "seed"):
        if given[name] is not None:
            options[name] = given[name]
    if given["domains"]:
        options["domains"] = list(given["domains"])
    if given["scenarios"]:
        options["scenarios"] = str(Path(given["scenarios"]).resolve())
    if given["settings"] is None and not options:
        return None
    return read_settings(given["settings"], options)


@build.command()
@_settings_options
@click.option("--json", "as_json", is_flag=True, help="Print every number as JSON.")
def plan(as_json: bool, **given: Any) -> None:
    """What a run would ask of each model, and cost. Nothing is called."""
    from safepyramid.construct.estimate import estimate, estimate_json, render_estimate
    from safepyramid.construct.runs import load_run
    from safepyramid.construct.settings import Settings

    run = load_run(_settings(given) or Settings())
    needs = estimate(run)
    say(_json(estimate_json(run, needs)) if as_json else render_estimate(run, needs))


@build.command("run")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@_settings_options
@click.option(
    "--until",
    type=click.Choice(_STEPS, case_sensitive=False),
    default=_STEPS[-1],
    show_default=True,
    help="Stop after this step.",
)
@click.option(
    "--cost-limit",
    type=click.FloatRange(0, min_open=True),
    help="Stop before new calls once the folder has cost this many US dollars.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    help="Concurrent calls of each model. Default: adaptive.",
)
@click.option(
    "--trial/--no-trial",
    default=True,
    show_default=True,
    help="Try every model with one short call before a run.",
)
def run_command(
    folder: Path,
    until: str,
    cost_limit: float | None,
    max_connections: int | None,
    trial: bool,
    **given: Any,
) -> None:
    """Make conversations and policies, check and mend them, in FOLDER.

    The same command goes on where an earlier run stopped, and pays for nothing twice. Without
    settings it goes on under those of the folder; under others it refuses to.

    Exits with 1 if the cost limit ended it, or if no question got a reply. A model's own bad
    answers are replies.
    """
    settings = _settings(given)
    from safepyramid.construct.pipeline import BuildRequest, build
    from safepyramid.construct.runs import load
    from safepyramid.construct.status import render_status, status

    request = BuildRequest(
        folder,
        settings,
        last=until,
        cost_limit=cost_limit,
        max_connections=max_connections,
        trial=trial,
    )
    _, stopped = build(request)
    loaded = load(folder)
    say(render_status(status(loaded), loaded.outcomes))
    if stopped:
        from safepyramid.errors import RunError

        raise RunError(stopped)


@build.command("status")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print every number as JSON.")
def status_command(folder: Path, as_json: bool) -> None:
    """What is finished in FOLDER, what waits, what failed, and why."""
    from safepyramid.construct.runs import load
    from safepyramid.construct.status import render_status, status

    loaded = load(folder)
    found = status(loaded)
    say(_json(found) if as_json else render_status(found, loaded.outcomes))


@build.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("stage", type=click.Choice(_STAGES, case_sensitive=False))
@click.option("--only", multiple=True, metavar="ID", help="Only this conversation; repeatable.")
def again(folder: Path, stage: str, only: Sequence[str]) -> None:
    """Set the answers of a STAGE aside, so that the next run asks again.

    What was built on them is asked again where it would now be asked otherwise.
    """
    from safepyramid.construct.runs import withdraw

    count = withdraw(folder, stage, only)
    say(f"{count:,} answers set aside; `safepyramid build run {folder}` asks again")


@build.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The release's folder; new or empty.",
)
@click.option(
    "--version",
    default="1.0",
    show_default=True,
    help="Of the release: numbers with dots, higher than those of --previous.",
)
@click.option("--name", default="A policy pyramid", show_default=True, help="Of the dataset.")
@click.option("--license", help="Its license: an id such as CC-BY-4.0, or an https address.")
@click.option("--date", help="The day it is published, as 2026-11-30, for croissant.json.")
@click.option(
    "--previous",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the release before: what has changed goes into errata.json.",
)
def release(
    folder: Path,
    output: Path,
    version: str,
    name: str,
    license: str | None,
    date: str | None,
    previous: Path | None,
) -> None:
    """Write what is complete in FOLDER as a release that can be published as it is."""
    from safepyramid.construct.release import release as write_release

    made = write_release(
        folder, output, version=version, name=name, license=license, date=date, previous=previous
    )
    say(f"{made.cases:,} cases of {made.conversations:,} conversations in {output}")
    if made.unfinished:
        say(f"{made.unfinished:,} conversations are not complete: build status {folder}")
    for id, why in made.left_out.items():
        say(one_line(f"left out: {id}: {why}"))
    for note in made.notes:
        say(one_line(note))


@build.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where benchmark.json and benchmark_with_evidence.json go.",
)
@click.option("--version", default="0.1", show_default=True, help="Of the data.")
@click.option("--check", is_flag=True, help="Write nothing; fail if the files there are stale.")
def assemble(folder: Path, output: Path, version: str, check: bool) -> None:
    """Compile the hand-written sources of FOLDER to benchmark files."""
    from safepyramid.construct.compile import compile_sources, require_fresh

    if check:
        count = require_fresh(folder, output, version)
        say(f"{count:,} cases, as the sources have them")
    else:
        count = compile_sources(folder, output, version)
        say(f"{count:,} cases in {output}")


@build.command()
@click.option(
    "--conversations", type=click.IntRange(1), default=20, show_default=True, help="How many."
)
@click.option("--seed", type=int, default=0, show_default=True, help="All is drawn from it.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files go; new, empty, or of an earlier demo.",
)
@click.option("--domain", "domains", multiple=True, help="Only this domain; repeatable.")
@click.option(
    "--rules",
    type=float,
    nargs=3,
    metavar="L0 L1 L2",
    help="Mean number of rules of a policy, at each level.",
)
@click.option(
    "--violated",
    type=float,
    nargs=3,
    metavar="L0 L1 L2",
    help="Mean share of them that is violated, at each level.",
)
@click.option("--distractors", type=float, help="Share of base rules that are distractors.")
@click.option("--exceptions", type=float, help="Share of modifiers that are exceptions.")
@click.option("--depth", type=int, help="Modifiers one upon another, from 1.")
@click.option("--turns", type=int, nargs=2, metavar="FEWEST MOST", help="Of a conversation.")
@click.option(
    "--shift",
    type=float,
    help="How often rules keep away from the conversation's wording, from 0 to 1.",
)
def demo(conversations: int, seed: int, output: Path, **knobs: Any) -> None:
    """Write a benchmark without any model: conversations, policies and labels from a seed.

    What is not given is as in the published data.
    """
    from safepyramid.construct.procedural import demo as write_demo

    given = {name: value for name, value in knobs.items() if value not in (None, ())}
    write_demo(conversations, seed, output, **given)
    say(f"{3 * conversations:,} cases in {output}")


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, allow_nan=False)
