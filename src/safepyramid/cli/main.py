"""The command line. Each command is a few lines that call one function.

Only click is imported here: what a command needs is imported inside it, so that `--help` and
the commands without an engine start at once.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from safepyramid import __version__
from safepyramid.cli.analysis import compare, plot, table
from safepyramid.cli.batch import batch
from safepyramid.cli.build import build
from safepyramid.cli.options import pairs
from safepyramid.cli.report import report
from safepyramid.errors import SafepyramidError
from safepyramid.schema import PROTOCOLS
from safepyramid.terminal import say

LEVELS = ("L0", "L1", "L2")


class _Group(click.Group):
    """Prints our own errors as one line; everything else is a fault and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # a plain console that lacks a glyph must not cost a table that is paid for
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except SafepyramidError as error:
            if ctx.params.get("debug"):
                raise
            say(f"Error: {error}", err=True)
            ctx.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="safepyramid")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Does a guard follow the policy that it is given?

    SafePyramid gives a guard a conversation and a policy of natural-language rules, and asks for
    exactly the rules that the conversation violates, on three levels.

    \b
    First steps:
      safepyramid eval                                   a baseline on the bundled sample
      safepyramid show frau-001-l1                       what a case looks like
      safepyramid eval --model openai/gpt-5.5 --dry-run  what a real run would cost
    """


@main.command("eval")
@click.option("--model", help="Provider and name as Inspect knows them, such as openai/gpt-5.5.")
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default="per_policy",
    show_default=True,
    help="The whole policy in one call, or one rule a call.",
)
@click.option(
    "--guard",
    help="How the model is asked and read; `safepyramid guards` lists them. Default: chat with a model, lexical without.",
)
@click.option(
    "--guard-option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the guard; repeatable.",
)
@click.option(
    "--dataset",
    default="sample",
    show_default=True,
    help="`sample`, a file, or a Hugging Face dataset such as ByteDance/SafePyramid.",
)
@click.option(
    "--level",
    multiple=True,
    type=click.Choice(LEVELS, case_sensitive=False),
    help="Only this level; repeatable.",
)
@click.option("--domain", multiple=True, help="Only this domain; repeatable.")
@click.option("--limit", type=click.IntRange(1), help="Only the first N cases.")
@click.option(
    "--structured",
    is_flag=True,
    help="Ask for the answer in a JSON form that the provider enforces; for weak models.",
)
@click.option(
    "--prompts", type=click.Path(), help="Folder of templates that replace the guard's own."
)
@click.option(
    "--effort", help="Reasoning effort, in the provider's words: low, medium, high, xhigh …"
)
@click.option("--temperature", type=float, help="Sampling temperature.")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Longest output of a call, thinking included."
)
@click.option("--seed", type=int, help="Sampling seed, where the provider takes one.")
@click.option(
    "--max-connections", type=click.IntRange(1), help="Concurrent calls. Default: adaptive."
)
@click.option(
    "--max-retries",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Retries of a call that failed in transport; docs/models.md names clients that add their own.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=1800,
    show_default=True,
    help="Seconds for a call with all its retries.",
)
@click.option(
    "--attempt-timeout",
    type=click.IntRange(1),
    default=600,
    show_default=True,
    help="Seconds for one attempt of a call.",
)
@click.option(
    "--batch", is_flag=True, help="Use the provider's batch API: slower, about half the price."
)
@click.option("--gguf", type=click.Path(exists=True), help="A model file to serve on this machine.")
@click.option("--model-base-url", help="Address of the model's server.")
@click.option(
    "-M",
    "model_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of the model provider; repeatable.",
)
@click.option(
    "--log-dir",
    default="logs",
    show_default=True,
    help="Where logs are written and earlier runs are looked for.",
)
@click.option("--dry-run", is_flag=True, help="Print calls, tokens and a price range, then stop.")
@click.option(
    "--cost-limit",
    type=click.FloatRange(0, min_open=True),
    help="Stop before new calls once this many US dollars are spent.",
)
@click.option("--fresh", is_flag=True, help="Start anew even where an earlier run could go on.")
@click.option(
    "--trial/--no-trial",
    default=True,
    show_default=True,
    help="Try every part on one case before a run.",
)
@click.option(
    "--display",
    type=click.Choice(["bar", "full", "rich", "plain", "log", "none"]),
    default="bar",
    show_default=True,
    help="How progress is shown: `bar` is ours, the others are Inspect's.",
)
def eval_command(**given: Any) -> None:
    """Run a guard on SafePyramid and print the table.

    The same command goes on where an earlier run stopped, and refuses to where data, prompts or
    settings have changed since. Nothing is spent before every check has passed.

    Exits with 1 if no case got a reply. A model's own bad answers are replies.
    """
    from safepyramid.runs.evaluate import Request, plan_text, prepare, run

    model_args = pairs(given["model_args"])
    if given["gguf"]:
        if given["model"]:
            raise click.UsageError("--gguf is a model already; leave --model out")
        given["model"] = "local/gguf"
        model_args["path"] = str(Path(given["gguf"]).resolve())
    request = Request(
        protocol=given["protocol"],
        model=given["model"],
        guard=given["guard"] or ("chat" if given["model"] else "lexical"),
        dataset=given["dataset"],
        level=tuple(level.upper() for level in given["level"]),
        domain=given["domain"],
        limit=given["limit"],
        prompts=given["prompts"],
        options=pairs(given["options"]),
        structured=given["structured"],
        config={
            "reasoning_effort": given["effort"],
            **{
                name: given[name]
                for name in ("temperature", "max_tokens", "seed", "max_connections")
            },
            **{name: given[name] for name in ("max_retries", "timeout", "attempt_timeout")},
            "batch": given["batch"] or None,
        },
        model_base_url=given["model_base_url"],
        model_args=model_args,
        log_dir=given["log_dir"],
        cost_limit=given["cost_limit"],
        fresh=given["fresh"],
        trial=given["trial"],
        display=given["display"],
    )
    if given["dry_run"]:
        say(plan_text(request))
        return
    from safepyramid.runs.evaluate import results_of
    from safepyramid.runs.outcome import require_replies, summary
    from safepyramid.runs.resume import local_path

    ready = prepare(request)
    log, note = run(request, ready)
    results = results_of(log)
    say(summary(request, ready, results, local_path(log.location), note))
    require_replies(results, ready.cases)


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--dataset",
    help="`sample`, a file, or a dataset id, all of it. Default: the cases that the files say they were made on, else `sample`.",
)
@click.option(
    "--other-data",
    is_flag=True,
    help="Score also where the data is not what a file was made on, as after corrections of it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every number as JSON.")
def score(files: Sequence[str], dataset: str | None, other_data: bool, as_json: bool) -> None:
    """Score result files: Inspect logs, result lines, or per-rule judgment lines.

    Several files are parts of one run: later ones override earlier ones for the same case, and files of
    different models, guards or prompts are refused. A file that says what data it was made on is
    not scored on other data.
    """
    from safepyramid.results.score import render_files, score_files

    make = score_files if as_json else render_files
    made = make(files, dataset, other_data=other_data)
    say(made if isinstance(made, str) else _json(made))


@main.command()
@click.argument("log", type=click.Path(exists=True))
@click.option(
    "-o", "--output", type=click.Path(), help="File to write. Default: the log's name with .jsonl."
)
def export(log: str, output: str | None) -> None:
    """Write an Inspect log as JSON lines in the published result format."""
    from safepyramid.results.lines import write_lines
    from safepyramid.results.logs import read_log

    path = Path(output) if output else Path(log).with_suffix(".jsonl")
    click.echo(f"{write_lines(path, read_log(log))} lines in {path}")


@main.command()
@click.argument("file")
def validate(file: str) -> None:
    """Check a benchmark file, or a catalogue of scenarios, and name every problem.

    FILE is a path, `sample`, or a Hugging Face dataset id; `scenarios` or a folder is a catalogue.
    Exits with 1 if there is a problem.
    """
    if file == "scenarios" or Path(file).is_dir():
        from safepyramid.construct.scenarios import scenario_problems

        faults = scenario_problems(None if file == "scenarios" else Path(file))
        say("\n".join([*faults, f"{file}: {len(faults)} problems"]))
        sys.exit(1 if faults else 0)
    from safepyramid.dataset.check import check_file, render_problems

    metadata, found, problems = check_file(file)
    say(render_problems(problems, metadata, found.cases, found.unread))
    sys.exit(1 if problems else 0)


@main.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print every number as JSON.")
def stats(file: str, as_json: bool) -> None:
    """The statistics of a benchmark file, per level, with the trivial baselines.

    FILE is a path, `sample`, or a Hugging Face dataset id.
    """
    from safepyramid.dataset.load import load_benchmark
    from safepyramid.statistics import render_statistics, statistics

    found = statistics(load_benchmark(file)[1])
    say(_json(found) if as_json else render_statistics(found))


@main.command()
@click.argument("case_id")
@click.option(
    "--dataset", default="sample", show_default=True, help="`sample`, a file, or a dataset id."
)
@click.option(
    "--labels/--no-labels",
    default=True,
    show_default=True,
    help="Show which rules are violated, and why.",
)
def show(case_id: str, dataset: str, labels: bool) -> None:
    """A readable page of one case."""
    from rich.console import Console

    from safepyramid.dataset.load import load_benchmark
    from safepyramid.show import render_case

    _, cases = load_benchmark(dataset, ids=[case_id], evidence=labels)
    Console().print(render_case(cases[0], labels=labels))


@main.command()
def guards() -> None:
    """The guards, what each can do, and its options. More in docs/guards.md."""
    from rich.console import Console
    from rich.table import Table

    from safepyramid.guards.page import COLUMNS, guards_table

    name, *middle, last = COLUMNS
    rows = guards_table()
    table = Table(box=None, pad_edge=False)
    table.add_column(name, no_wrap=True, min_width=max(len(row[0]) for row in rows))
    for title in middle:
        table.add_column(title, overflow="fold")
    table.add_column(last, overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    Console().print(table, markup=False)


for command in (build, batch, table, compare, plot, report):
    main.add_command(command)


def _json(value: Any) -> str:
    import json

    # escaped to ASCII, which keeps all that a terminal would act on harmless and exact
    return json.dumps(value, indent=2, allow_nan=False)
