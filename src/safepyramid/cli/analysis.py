"""The commands `table`, `compare` and `plot`. `main.py` attaches them.

What a command needs is imported inside it.
"""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safepyramid.errors import DataError
from safepyramid.terminal import one_line, printable, say

if TYPE_CHECKING:
    import pandas as pd

    from safepyramid.analysis.layout import Table

log = logging.getLogger(__name__)

TABLES = (
    *("results", "thresholds", "domains", "states", "rule-types", "errors", "causes", "failures"),
    *("effort", "harness", "cost", "repeats"),
)
PLOTS = ("cost", "thresholds", "levels", "domains", "errors", "effort")
FORMATS = ("text", "markdown", "latex", "csv", "jsonl")

_dataset = click.option(
    "--dataset",
    help="The cases that were predicted: `sample`, a file, or a dataset id. Logs carry their own.",
)
_level = click.option("--level", multiple=True, help="Only this level; repeatable.")
_domain = click.option("--domain", multiple=True, help="Only this domain; repeatable.")
_seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the resampling."
)
_draws = click.option("--draws", type=click.IntRange(100), help="Resamples.")
_format = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="csv and jsonl hold every number in full precision.",
)
_output = click.option("-o", "--output", type=click.Path(dir_okay=False), help="File to write.")
_intervals = click.option(
    "--intervals/--no-intervals", default=True, show_default=True, help="Show 95 % intervals."
)
_published = click.option(
    "--published/--no-published",
    default=True,
    show_default=True,
    help="Show the paper's numbers beside.",
)


@click.command()
@click.argument("name", type=click.Choice([*TABLES, "published", "wrong-rules"]), metavar="NAME")
@click.argument("logs", nargs=-1, type=click.Path(exists=True))
@_dataset
@_level
@_domain
@_format
@_output
@_intervals
@_published
@_seed
@_draws
def table(name: str, logs: Sequence[str], form: str, output: str | None, **given: Any) -> None:
    """Print a table of runs: Inspect logs, result files, or folders of logs.

    \b
    results      RMR, RMR@1.0, RDR, lower bound, ranks; baselines and published rows beside
    thresholds   RMR@τ for six τ
    domains      the results per domain
    states       how the cases ended
    rule-types   accuracy, precision, recall and F1 per rule type
    errors       which kind of rule the errors come from
    causes       the errors by what the wrong rule was and what acts on it
    failures     how cases fail: the paper's failure modes
    effort       runs that differ in reasoning effort only
    harness      runs that differ in the harness only
    cost         calls, tokens and price by role
    repeats      how far runs that repeat each other agree
    published    the paper's tables 3, 4 and 5; needs no log
    wrong-rules  every wrong rule, one by one (as jsonl or csv)

    Runs on different cases, or of different protocols, stand in blocks of their own.
    """
    if name == "published":
        _published_tables(form, output, intervals=given["intervals"])
        return
    if not logs:
        raise click.UsageError(f"table {name} needs at least one log or result file")
    runs = _load(logs, given, evidence=name == "wrong-rules")
    if name == "wrong-rules":
        from safepyramid.analysis.causes import wrong_rule_frame

        if form not in ("csv", "jsonl"):
            raise click.UsageError(
                "table wrong-rules is for reading by programs: --format jsonl or csv"
            )
        _write(_data(wrong_rule_frame(runs), form), output)
        return
    from safepyramid.analysis.views import VIEWS, Options

    view = VIEWS[name]
    options = Options(published=given["published"], seed=given["seed"], draws=given["draws"])
    frame = view.compute(runs, options)
    if frame.empty:
        raise DataError(_nothing(name))
    if form in ("csv", "jsonl"):
        _write(_data(frame, form), output)
    else:
        _write(_shown([view.lay_out(frame)], form, intervals=given["intervals"]), output)


@click.command()
@click.argument("first", type=click.Path(exists=True))
@click.argument("second", type=click.Path(exists=True))
@_dataset
@_level
@_domain
@click.option(
    "--epochs",
    type=click.IntRange(1),
    nargs=2,
    default=(1, 1),
    show_default=True,
    help="Which epoch of FIRST, and which of SECOND.",
)
@click.option("--cases", "list_cases", is_flag=True, help="List every case that changed.")
@click.option(
    "--rows",
    type=click.Choice(["cases", "metrics", "rules"]),
    default="cases",
    show_default=True,
    help="What csv and jsonl hold.",
)
@click.option(
    "--points",
    type=click.FloatRange(0, 100, min_open=True),
    help="Say how many cases a change of so many points needs.",
)
@_format
@_output
@_intervals
@_seed
@_draws
def compare(
    first: str, second: str, list_cases: bool, form: str, output: str | None, **given: Any
) -> None:
    """What changed from the run FIRST to the run SECOND: metrics, cases and rules.

    Only cases that both were asked are compared. Two epochs of one log are two runs: give the log
    twice, and --epochs 1 2.
    """
    from safepyramid.analysis.compare import DRAWS
    from safepyramid.analysis.compare import compare as compare_runs
    from safepyramid.analysis.layouts import lay_out_comparison

    runs = _load([first, second], given, keep_all=True)
    one, other = (
        _only(runs, path, epoch)
        for path, epoch in zip((first, second), given["epochs"], strict=True)
    )
    if one is other:
        raise DataError(
            f"{first} and {second} are the same run; give two, or two epochs of one (--epochs 1 2)"
        )
    found = compare_runs(
        one, other, seed=given["seed"], draws=given["draws"] or DRAWS, points=given["points"]
    )
    if form in ("csv", "jsonl"):
        parts = {"cases": found.cases, "metrics": found.differences, "rules": found.rules}
        _write(_data(parts[given["rows"]], form), output)
        return
    shown = lay_out_comparison(found, list_cases=list_cases)
    _write(_shown(shown, form, intervals=given["intervals"]), output)


@click.command()
@click.argument("name", type=click.Choice(PLOTS), metavar="NAME")
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True))
@_dataset
@_level
@_domain
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="File to write; its suffix is left out. Default: the plot's name.",
)
@_published
@_seed
@_draws
def plot(name: str, logs: Sequence[str], output: str | None, **given: Any) -> None:
    """Draw a plot of runs as SVG and PNG, with its data as CSV beside.

    \b
    cost         price against RMR, with the runs that no other beats in both
    thresholds   RMR@τ from the exact match down
    levels       the drop from L0 to L2
    domains      RMR per domain
    errors       which kind of rule the errors come from
    effort       runs that differ in reasoning effort only
    """
    from safepyramid.analysis.plots import draw
    from safepyramid.analysis.views import Options

    runs = _load(logs, given)
    options = Options(published=given["published"], seed=given["seed"], draws=given["draws"])
    for path in draw(name, runs, Path(output or name), options):
        say(str(path))


COMMANDS = (table, compare, plot)


def _load(
    logs: Sequence[str], given: dict[str, Any], *, evidence: bool = False, keep_all: bool = False
) -> Any:
    from safepyramid.analysis.collect import load_runs

    runs = load_runs(
        logs,
        given["dataset"],
        level=given["level"] or None,
        domain=given["domain"] or None,
        evidence=evidence,
        keep_all=keep_all,
    )
    for note in runs.notes:
        log.warning("%s", one_line(note))
    return runs


def _only(runs: Any, path: str, epoch: int) -> Any:
    """An epoch of the run of a path."""
    whole = Path(path).resolve()
    inside = [
        run for run in runs if whole in (found := Path(run.origin.path).resolve(), *found.parents)
    ]
    logs = {run.origin.path for run in inside}
    if len(logs) != 1:
        raise DataError(f"{path} holds {len(logs)} runs that can be used; give the log of one")
    chosen = next((run for run in inside if run.origin.epoch == epoch), None)
    if chosen is None:
        raise DataError(f"{path} has no epoch {epoch}; it has 1 to {len(inside)}")
    return chosen


def _nothing(name: str) -> str:
    if name in ("effort", "harness"):
        return f"no two of these runs differ in {name} and in nothing else; give at least two"
    if name == "repeats":
        return "no two of these runs repeat each other; give at least two, or a log with epochs"
    return f"table {name} is empty"


def _published_tables(form: str, output: str | None, *, intervals: bool) -> None:
    from safepyramid.analysis.layouts import lay_out_published, published_frame

    numbers = (3, 4, 5)
    if form in ("csv", "jsonl"):
        import pandas as pd

        frame = pd.concat([published_frame(number) for number in numbers], ignore_index=True)
        _write(_data(frame, form), output)
    else:
        shown = [lay_out_published(number) for number in numbers]
        _write(_shown(shown, form, intervals=intervals), output)


def _data(frame: "pd.DataFrame", form: str) -> str:
    from safepyramid.analysis.render import to_csv, to_jsonl

    return to_csv(frame) if form == "csv" else to_jsonl(frame.to_dict("records"))


def _shown(tables: Sequence["Table"], form: str, *, intervals: bool) -> str:
    import shutil

    from safepyramid.analysis.render import WIDTH, to_latex, to_markdown, to_text

    if form == "text":
        width = max(80, shutil.get_terminal_size((WIDTH, 0)).columns)
        parts = [to_text(each, intervals=intervals, width=width) for each in tables]
    else:
        render = to_markdown if form == "markdown" else to_latex
        parts = [render(each, intervals=intervals) for each in tables]
    return printable("\n\n".join(parts))


def _write(text: str, output: str | None) -> None:
    # A model's text may hold half a surrogate pair: it is shown as an escape.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if output is None:
        # what goes into a pipe is data, and stays as it is
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"cannot write {output}: {error.strerror}; choose another place") from error
    say(output)
