"""What a report is on: runs and cases, each with the name of its page, free of secrets."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from safepyramid.analysis.runs import Origin, Run, Runs
from safepyramid.metrics.failures import FAILURE_MODES, UNKNOWN, failure_modes, wrong_rules
from safepyramid.report.scrub import scrub_all
from safepyramid.report.text import cut
from safepyramid.schema import Case, Prediction, RuleType, State

LONGEST_REPLY = 100_000
"""Characters of a reply that a page shows; the rest stays in the log."""
LONGEST_NOTE = 2_000
"""Characters of a note that a page shows."""
MOST_UNKNOWN = 20
"""Numbers that a page shows of those that an answer names and the policy does not have."""

ERROR_TYPES = (*(kind.value for kind in RuleType), UNKNOWN)
"""What an error can be put down to, in the order of their codes."""
_CODES = "dtecu"


@dataclass(frozen=True)
class ReportRun:
    """A run with its page."""

    slug: str
    """The page's file name, without its ending. Unique in a report, whatever the letters' case."""
    run: Run
    replies: Mapping[str, Any]
    """Case id -> the raw reply; per rule, rule number -> the raw reply. Empty for result files."""
    file: str
    """The name of the run's file, without its folder."""

    @property
    def name(self) -> str:
        """The run's name, unique among the runs of a report."""
        return self.run.name

    @property
    def origin(self) -> Origin:
        """How the run was made."""
        return self.run.origin

    @property
    def label(self) -> str:
        """The name with the protocol, where the name does not say it."""
        return _label(self.run)


@dataclass(frozen=True)
class CasePage:
    """A case with its page."""

    slug: str
    case: Case
    runs: tuple[int, ...]
    """Indices of the runs that were asked it."""


@dataclass(frozen=True)
class Report:
    """Runs, the cases that they stand on, and what a reader should know."""

    runs: tuple[ReportRun, ...]
    pages: tuple[CasePage, ...]
    notes: tuple[str, ...]

    @property
    def members(self) -> Runs:
        """The runs as the analysis takes them."""
        return Runs(tuple(each.run for each in self.runs), self.notes)

    @property
    def domains(self) -> list[str]:
        """All domains of the cases, in alphabetical order."""
        return sorted({page.case.domain for page in self.pages})


def gather(
    runs: Runs,
    scrub: Callable[[str], str],
    read_replies: Callable[[Run], Mapping[str, Any]] | None = None,
) -> Report:
    """Put a report's contents together.

    Cases with one id but another text or truth, as in runs on two versions of the data, get a page
    each.

    Args:
        runs: As loaded.
        scrub: Takes secrets out of a text. Names, settings, notes and replies go through it.
        read_replies: Gives the raw replies of a run; without it there are none.
    """
    taken: set[str] = set()
    found = []
    names: set[str] = set()
    for run in runs:
        replies = read_replies(run) if read_replies else {}
        clean = _scrubbed(run, scrub, names)
        said = {case_id: _shown_reply(reply, scrub) for case_id, reply in replies.items()}
        slug = make_slug(_label(clean), taken)
        found.append(ReportRun(slug, clean, said, scrub(PurePath(run.origin.path).name)))
    notes = tuple(scrub(note) for note in runs.notes)
    return Report(tuple(found), tuple(_pages(found)), notes)


def _label(run: Run) -> str:
    protocol = run.origin.protocol.replace("_", "-")
    return run.name if protocol in run.name else f"{run.name} · {protocol}"


def _pages(runs: Iterable[ReportRun]) -> Iterator[CasePage]:
    versions: dict[str, list[tuple[Case, list[int]]]] = {}
    for index, each in enumerate(runs):
        for case in each.run.cases:
            known = versions.setdefault(case.id, [])
            for other, asked in known:
                if other is case or other == case:
                    asked.append(index)
                    break
            else:
                known.append((case, [index]))
    taken: set[str] = set()
    for case_id, known in versions.items():
        for case, asked in known:
            yield CasePage(make_slug(case_id, taken), case, tuple(asked))


def _scrubbed(run: Run, scrub: Callable[[str], str], names: set[str]) -> Run:
    origin, name = _clean_origin(run.origin, scrub), scrub(run.name)
    while name in names:
        name += "′"
    names.add(name)
    predictions = {case_id: _clean(said, scrub) for case_id, said in run.predictions.items()}
    usage = [replace(use, role=scrub(use.role), model=scrub(use.model)) for use in run.usage]
    return replace(run, name=name, origin=origin, predictions=predictions, usage=usage)


def _clean_origin(origin: Origin, scrub: Callable[[str], str]) -> Origin:
    def clean(text: str | None) -> str | None:
        return None if text is None else scrub(text)

    settings = scrub_all(json.loads(origin.settings), scrub) if origin.settings else ""
    # The path is needed to read the log, and no page shows more of it than the file's name.
    return replace(
        origin,
        guard=clean(origin.guard),
        model=clean(origin.model),
        harness=clean(origin.harness),
        effort=clean(origin.effort),
        settings=json.dumps(settings, sort_keys=True) if settings else "",
        prompts_hash=clean(origin.prompts_hash),
        created=clean(origin.created),
        version=clean(origin.version),
    )


def _clean(said: Prediction, scrub: Callable[[str], str]) -> Prediction:
    if said.note:
        said = replace(said, note=cut(scrub(said.note), LONGEST_NOTE))
    if any(judgment.verdict.note for judgment in said.judgments):
        judgments = tuple(
            replace(j, verdict=replace(j.verdict, note=cut(scrub(j.verdict.note), LONGEST_NOTE)))
            for j in said.judgments
        )
        said = replace(said, judgments=judgments)
    return said


def _shown_reply(reply: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(reply, Mapping):
        return {str(rule): _shown_reply(text, scrub) for rule, text in reply.items()}
    return cut(scrub(str(reply)), LONGEST_REPLY)


def make_slug(text: str, taken: set[str]) -> str:
    """A file name for a text: plain letters, digits, dots and dashes; noted in `taken`.

    Never empty, never hidden, never one that is taken already in whatever case.
    """
    plain = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80].strip("-.") or "x"
    slug, number = plain, 1
    while slug in taken:
        number += 1
        slug = f"{plain}~{number}"
    taken.add(slug)
    return slug


def outcome(case: Case, said: Prediction) -> str:
    """How a case went, as the data files of a report write it.

    Returns:
        The state's name for a case that was not answered; else the failure modes as a hexadecimal
        digit (a bit each, in the order of `FAILURE_MODES`) and, after a space each, the errors:
        `+7e` for a rule flagged though not violated, `-4d` for a violated rule that was missed, with a
        letter for the type that it is put down to (decisive d, distractor t, exception e,
        conditional c, unknown u). "0" is an exact match. Of the numbers that the policy does not have
        the first `MOST_UNKNOWN` are written, and `~` with how many more there are.
    """
    if said.state is not State.ANSWERED or said.violated is None:
        return said.state.value
    modes = failure_modes(case, said.violated)
    mask = sum(1 << i for i, mode in enumerate(FAILURE_MODES) if mode in modes)
    shown, more = shown_rules(case, said.violated)
    errors = (
        f"{'+' if wrong.kind == 'fp' else '-'}{wrong.rule}{_CODES[ERROR_TYPES.index(wrong.type)]}"
        for wrong in wrong_rules(case, shown)
    )
    return " ".join((f"{mask:x}", *errors, *([f"~{more}"] if more else ())))


def shown_rules(case: Case, rules: Collection[int]) -> tuple[frozenset[int], int]:
    """The rules of an answer that a page shows, and how many it leaves out.

    All that the policy has are shown; of other numbers, of which an answer can name any count, the
    lowest `MOST_UNKNOWN`.
    """
    if len(rules) <= MOST_UNKNOWN:
        return frozenset(rules), 0
    left_out = sorted(frozenset(rules).difference(case.rule_types))[MOST_UNKNOWN:]
    return frozenset(rules).difference(left_out), len(left_out)


def index_data(report: Report) -> dict[str, Any]:
    """What every page that walks cases needs: the runs, the cases and the names of codes."""
    return {
        "runs": [
            {"slug": each.slug, "name": each.name, "protocol": each.origin.protocol}
            for each in report.runs
        ],
        "types": dict(zip(_CODES, ERROR_TYPES, strict=True)),
        "modes": list(FAILURE_MODES),
        "cases": [
            [
                page.slug,
                page.case.id,
                page.case.level.value,
                page.case.domain,
                len(page.case.ground_truth_violations),
            ]
            for page in report.pages
        ],
    }


def run_data(report: Report, index: int) -> list[str | None]:
    """How each case of the report went in one run; None where the run was not asked it."""
    predictions = report.runs[index].run.predictions
    return [
        outcome(page.case, predictions[page.case.id]) if index in page.runs else None
        for page in report.pages
    ]
