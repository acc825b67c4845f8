"""What a finished run says on the terminal, and whether it was worth anything."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safepyramid.errors import RunError
from safepyramid.metrics.baselines import baseline_rows
from safepyramid.results.read import Results
from safepyramid.results.score import render_score, score_results
from safepyramid.schema import Case, State

if TYPE_CHECKING:
    from safepyramid.runs.evaluate import Ready, Request


def summary(request: "Request", ready: "Ready", results: Results, log: str, note: str) -> str:
    """What a finished run says: what went wrong, the table with baselines beside it, the log.

    Args:
        request: What was asked for.
        ready: The request, checked.
        results: As read from the run's log; a case without a result was not asked.
        log: The log's place.
        note: What was done about earlier runs; may be empty.
    """
    shown = f" · {request.model}" if request.model else ""
    lines = [
        *([note, ""] if note else []),
        *_faults(results, ready.cases),
        f"{ready.guard.name}{shown} · {request.protocol} · {request.dataset}",
        render_score(
            score_results(results, ready.cases),
            baselines=baseline_rows(ready.cases, protocol=request.protocol),
        ),
        "",
        f"log: {log}",
        f"see each case: inspect view start --log-dir {request.log_dir}",
    ]
    return "\n".join(lines)


def require_replies(results: Results, cases: Sequence[Case]) -> None:
    """Raise a RunError if no case got a reply: each failed or was not asked.

    A model's own bad answers (refused, blocked, truncated, unparsed) are replies.
    """
    if any(said.state is not State.ERROR for said in results.predictions.values()):
        return
    notes, unasked = _failed(results), _unasked(results, cases)
    why = [f"{count} failed: {note}" for note, count in notes.most_common(1)]
    if len(notes) > 1:
        why.append(f"{notes.total() - notes.most_common(1)[0][1]} failed otherwise")
    if unasked:
        why.append(f"{unasked} not asked: cost limit reached")
    raise RunError(f"no case got a reply ({'; '.join(why)})")


def _faults(results: Results, cases: Sequence[Case]) -> list[str]:
    """What went wrong in transport or with us, each kind once, with how often; what was not asked."""
    notes, unasked = _failed(results), _unasked(results, cases)
    lines = [f"{_cases(count)} failed: {note}" for note, count in notes.most_common(3)]
    if unasked:
        lines.append(f"{_cases(unasked)} not asked: cost limit reached")
    if not lines:
        return []
    how = ", with a higher --cost-limit," if unasked else ""
    return [*lines, f"the same command{how} asks for these cases again", ""]


def _failed(results: Results) -> Counter[str]:
    return Counter(p.note for p in results.predictions.values() if p.state is State.ERROR)


def _unasked(results: Results, cases: Sequence[Case]) -> int:
    return len(cases) - len(results.predictions)


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count > 1)}"
