"""The command `safepyramid report`."""

from collections.abc import Sequence

import click

from safepyramid.report.text import counted
from safepyramid.terminal import one_line, say


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False),
    help="Folder to make; an earlier report there is replaced.",
)
@click.option(
    "--dataset",
    help="The data of the runs: `sample`, a file, or a dataset id. Needed for result files, and for the evidence.",
)
@click.option(
    "--evidence/--no-evidence",
    default=None,
    help="Show the validators' evidence. Default: where that needs no download.",
)
@click.option(
    "--replies/--no-replies",
    default=True,
    show_default=True,
    help="Show the raw replies, which takes time with large logs.",
)
@click.option(
    "--published/--no-published",
    default=True,
    show_default=True,
    help="Show the paper's rows beside the runs.",
)
def report(
    logs: Sequence[str],
    output: str,
    dataset: str | None,
    evidence: bool | None,
    replies: bool,
    published: bool,
) -> None:
    """Make a report on runs: a folder of pages that opens from disk.

    LOGS are Inspect logs, folders of logs, or result files. The report has a leaderboard, a page for
    each run and each case, and a page that compares two runs; keys are kept out of it.
    """
    from safepyramid.report.build import build_report

    built = build_report(
        logs, output, dataset=dataset, evidence=evidence, replies=replies, published=published
    )
    for note in built.notes:
        say(one_line(note), err=True)
    sizes = ((built.runs, "run"), (built.cases, "case"), (built.files, "file"))
    made = ", ".join(counted(number, thing) for number, thing in sizes)
    say(f"{made}: open {built.first_page}")
