"""Making the site: pages, data files, and the folder that holds them."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from safepyramid import __version__
from safepyramid.analysis.collect import load_runs
from safepyramid.analysis.runs import Run
from safepyramid.errors import RunError
from safepyramid.metrics.failures import FAILURE_MODES
from safepyramid.metrics.stats import DRAWS
from safepyramid.report.board import make_board
from safepyramid.report.case_view import case_data, case_view
from safepyramid.report.charts import percent
from safepyramid.report.contents import ERROR_TYPES, Report, gather, index_data, run_data
from safepyramid.report.limits import report_limits
from safepyramid.report.pairs import make_pairs
from safepyramid.report.run_view import make_tables, run_view
from safepyramid.report.scrub import make_last_check
from safepyramid.report.text import breakable, counted, printable
from safepyramid.results.logs import is_log, read_replies
from safepyramid.secrets import make_scrub

STATIC = ("report.css", "report.js", "index.js", "cases.js", "case.js", "compare.js")
MARK = "report.json"
"""The file that tells a folder of ours from others."""


class Built(NamedTuple):
    """What was made."""

    first_page: Path
    """The page to open."""
    runs: int
    cases: int
    files: int
    notes: tuple[str, ...]


def build_report(
    paths: Iterable[str | Path],
    output: str | Path,
    *,
    dataset: str | Path | None = None,
    evidence: bool | None = None,
    replies: bool = True,
    published: bool = True,
    seed: int = 0,
    draws: int = DRAWS,
    environ: Mapping[str, str] | None = None,
) -> Built:
    """Make a report on runs: a folder of pages that opens from disk, without a network.

    The same runs give the same bytes. A new folder appears whole or not at all; an earlier report is
    replaced when the new one is finished, and a folder with anything else is left alone.

    Args:
        paths: Inspect logs, result files, or folders of logs, in any mix.
        output: The folder to make.
        dataset: The data that the runs were made on, as for `load_benchmark`; needed where the files
            do not carry their cases.
        evidence: Show the validators' evidence. By default where that costs no download: for the
            sample and for local files.
        replies: Read the raw replies from the logs, which takes some 2 ms a case.
        published: Show the paper's rows.
        seed: Of the resampling.
        draws: Resamples.
        environ: The environment whose keys are kept out of the report; the process's own by default.

    Raises:
        DataError: A file cannot be used (see `load_runs`).
        RunError: The folder cannot be made, or holds something else.
    """
    folder = Path(output).absolute()
    _check_folder(folder)
    with_evidence = _has_evidence(dataset) if evidence is None else evidence
    runs = load_runs(paths, dataset, evidence=with_evidence)
    report = gather(runs, make_scrub(environ), _replies if replies else None)
    part = (folder if folder.is_dir() else folder.parent) / f".report.{os.getpid()}.part"
    try:
        count = _write_site(
            report,
            _Site(part, report, make_last_check(environ)),
            published=published,
            seed=seed,
            draws=draws,
        )
        _put(part, folder)
    except OSError as error:
        raise RunError(
            f"cannot write the report to {str(folder)!r} ({error.strerror}); choose another folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Built(folder / "index.html", len(report.runs), len(report.pages), count, report.notes)


def _has_evidence(dataset: str | Path | None) -> bool:
    """Whether evidence can be had without a download."""
    return dataset is not None and (dataset == "sample" or Path(dataset).exists())


def _replies(run: Run) -> Mapping[str, Any]:
    """The raw replies of a run; result files have none, and neither have guards without a model."""
    path = run.origin.path
    if run.origin.model is None or not is_log(path):
        return {}
    return read_replies(path, [case.id for case in run.cases], run.origin.epoch)


class _Site:
    """Where the pages go, and what all of them share."""

    def __init__(self, folder: Path, report: Report, check: Callable[[str], str]) -> None:
        self.folder = folder
        self.check = check
        self.count = 0
        self.env = Environment(
            loader=PackageLoader("safepyramid.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=lambda value: printable(value) if type(value) is str else value,
        )
        filters: dict[str, Callable[..., str]] = {
            "percent": percent,
            "json": to_script,
            "words": lambda name: printable(name).replace("_", " "),
            "breakable": breakable,
        }
        self.env.filters |= filters
        self.env.globals |= {
            "report": report,
            "version": __version__,
            "runs": report.runs,
            "domains": report.domains,
            "types": ERROR_TYPES,
            "modes": FAILURE_MODES,
            "counted": counted,
        }

    def page(self, name: str, template: str, **context: Any) -> None:
        root = "../" * name.count("/")
        html = self.env.get_template(template).render(
            root=root, page=Path(template).stem, **context
        )
        self.write(name, html)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.check(text), encoding="utf-8", newline="\n")
        self.count += 1


def to_script(value: Any) -> Markup:
    """A value as JSON that can stand inside a script element or be a script's expression.

    Pure ASCII, without any sign that HTML or JavaScript could read as something else.
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _write_site(report: Report, site: _Site, *, published: bool, seed: int, draws: int) -> int:
    members = report.members
    for name in STATIC:
        text = (files("safepyramid.report") / "static" / name).read_text(encoding="utf-8")
        site.write(f"static/{name}", text)
    site.write("data/index.js", f"window.SP_INDEX={to_script(index_data(report))};\n")
    for index, each in enumerate(report.runs):
        rows = to_script(run_data(report, index))
        site.write(
            f"data/{each.slug}.js",
            f"(window.SP_RUNS=window.SP_RUNS||{{}})[{to_script(each.slug)}]={rows};\n",
        )
    tables = make_tables(members, seed=seed, draws=draws)
    board = make_board(report, tables.results, tables.domains, published=published)
    site.page(
        "index.html", "index.html", board=board, limits=report_limits(members), notes=report.notes
    )
    for each in report.runs:
        site.page(f"run/{each.slug}.html", "run.html", run=each, view=run_view(each, tables))
    site.page("cases.html", "cases.html")
    site.page("compare.html", "compare.html", pairs=make_pairs(members, seed=seed))
    for page in report.pages:
        view = case_view(page.case)
        data = case_data(page, report.runs, [rule["number"] for rule in view["rules"]])
        site.page(f"case/{page.slug}.html", "case.html", view=view, data=data)
    site.write(MARK, json.dumps(_mark(report), indent=1) + "\n")
    return site.count


def _mark(report: Report) -> dict[str, Any]:
    return {
        "safepyramid": __version__,
        "runs": [
            {
                "name": each.name,
                "page": f"run/{each.slug}.html",
                "data_hash": each.run.data_hash,
                "prompts_hash": each.origin.prompts_hash,
            }
            for each in report.runs
        ],
    }


def _check_folder(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise RunError(
            f"{str(folder)!r} holds other files than a report; give an empty folder or a new name"
        )
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{str(folder)!r} is a file; give a folder")


def _put(part: Path, folder: Path) -> None:
    """Put the finished pages in their place; what was there is left in `part`.

    A folder that exists stays the same one: a shell may stand in it, or it may be a link or a mounted
    volume. It has its mark at every moment, so that a report that was interrupted here can be replaced.
    """
    if part.parent != folder:
        part.rename(folder)
        return
    made, old = list(part.iterdir()), part / ".old"
    old.mkdir()
    for path in list(folder.iterdir()):
        if path.name not in (part.name, MARK):
            path.rename(old / path.name)
    for path in sorted(made, key=lambda path: path.name != MARK):
        path.replace(folder / path.name)
