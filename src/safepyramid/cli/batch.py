"""`safepyramid batch`: requests to files, results from files."""

import math
from typing import Any

import click

from safepyramid.cli.options import pairs
from safepyramid.schema import PROTOCOLS
from safepyramid.terminal import one_line, say


@click.group()
def batch() -> None:
    """Run without a live connection: requests to files, results from files.

    For batch services, `vllm run-batch` and Ray: see docs/large-runs.md.
    """


@batch.command()
@click.option("--model", required=True, help="The model's name as the server knows it.")
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default="per_policy",
    show_default=True,
    help="The whole policy in one request, or one rule a request.",
)
@click.option("--guard", default="chat", show_default=True, help="How the model is asked and read.")
@click.option(
    "--guard-option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the guard; repeatable.",
)
@click.option(
    "--structured", is_flag=True, help="Ask for answers in a JSON form that the server enforces."
)
@click.option(
    "--dataset",
    default="sample",
    show_default=True,
    help="`sample`, a file, or a Hugging Face dataset such as ByteDance/SafePyramid.",
)
@click.option("--level", multiple=True, help="Only this level; repeatable.")
@click.option("--domain", multiple=True, help="Only this domain; repeatable.")
@click.option("--limit", type=click.IntRange(1), help="Only the first N cases.")
@click.option(
    "--prompts", type=click.Path(), help="Folder of templates that replace the guard's own."
)
@click.option("--effort", help="Reasoning effort, in the server's words.")
@click.option("--temperature", type=float, help="Sampling temperature.")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest output, thinking included.")
@click.option("--seed", type=int, help="Sampling seed.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="requests.jsonl",
    show_default=True,
    help="Request file.",
)
@click.option("--max-requests", type=click.IntRange(1), help="Most requests in a file.")
@click.option("--max-mb", type=click.FloatRange(0, min_open=True), help="Largest file, in MB.")
@click.option(
    "--without",
    multiple=True,
    type=click.Path(exists=True),
    help="Result file: what it answers is not asked again; repeatable.",
)
@click.option(
    "--force", is_flag=True, help="Replace the request files of an earlier run under this name."
)
def write(**given: Any) -> None:
    """Write a run's requests as JSON lines in OpenAI's batch form."""
    from safepyramid.batch.files import RUN_SUFFIX, write_batch
    from safepyramid.batch.results import answered_ids
    from safepyramid.batch.write import BatchRun, open_batch
    from safepyramid.guards.base import rule_questions

    config = {name: given[name] for name in ("temperature", "max_tokens", "seed")}
    run = BatchRun(
        **{name: given[name] for name in ("model", "protocol", "guard", "prompts", "dataset")},
        **{name: given[name] for name in ("level", "domain", "limit", "structured")},
        options=pairs(given["options"]),
        config={**config, "reasoning_effort": given["effort"]},
    )
    size = given["max_mb"]
    if size is not None and not math.isfinite(size):
        raise click.UsageError(f"--max-mb {size} is no size: give a number above 0")
    done = answered_ids(given["without"])
    count, files = write_batch(
        given["output"],
        open_batch(run),
        rule_questions,
        max_requests=given["max_requests"],
        max_bytes=None if size is None else int(size * 1_000_000),
        done=done,
        force=given["force"],
    )
    say(f"{count:,} requests in {', '.join(map(str, files)) or 'no file'}")
    if given["without"]:
        say(f"{len(done):,} left out: they have a result")
    say(f"read the results with: safepyramid batch read {given['output']}{RUN_SUFFIX} RESULTS…")


@batch.command()
@click.argument("run", type=click.Path(exists=True))
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    show_default="requests.predictions.jsonl beside requests.jsonl.run.json",
    help="Predictions to write.",
)
def read(run: str, results: tuple[str, ...], output: str | None) -> None:
    """Read result files into predictions, which `safepyramid score` takes.

    RUN is the file *.run.json that `batch write` made. RESULTS may be partial, in any order.
    """
    from safepyramid.batch.files import predictions_path, read_run, require_other_file
    from safepyramid.batch.results import count_states, read_batch, write_predictions
    from safepyramid.batch.write import open_batch
    from safepyramid.guards.base import rule_questions

    opened = open_batch(read_run(run))
    target = predictions_path(run) if output is None else output
    require_other_file(target, run, results)
    predictions, notes = read_batch(opened, rule_questions, results)
    write_predictions(target, opened, predictions)
    for note in notes:
        say(f"note: {one_line(note)}", err=True)
    say(f"{len(predictions):,} cases in {target}: {count_states(predictions)}")
