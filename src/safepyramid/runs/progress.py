"""How far `safepyramid eval` has come: a bar in a terminal, else a line now and then.

The scorer reports each finished case, failed ones included. Outside `shown` nothing listens.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

EVERY = 20.0
"""Seconds between lines where there is no terminal."""


class Tally:
    """What has happened so far in a run."""

    def __init__(self, cases: int, kept: int) -> None:
        self.cases = cases
        self.kept = kept
        self.states: Counter[str] = Counter()
        self.started = time.monotonic()

    @property
    def finished(self) -> int:
        """Cases that are done, those of an earlier run included."""
        return min(self.cases, self.kept + self.states.total())

    def line(self) -> str:
        """The tally in words, with the time left once it can be told."""
        parts = [f"{self.finished} of {self.cases} cases"]
        left = self.seconds_left()
        if left is not None:
            parts.append(f"about {duration(left)} left")
        failed = [f"{n} {state}" for state, n in sorted(self.states.items()) if state != "answered"]
        return " · ".join(parts + failed)

    def seconds_left(self) -> float | None:
        """The time left at the pace so far; None before the first case of this run is done."""
        done = self.states.total()
        if not done:
            return None
        return (time.monotonic() - self.started) / done * (self.cases - self.finished)


def duration(seconds: float) -> str:
    """Seconds as `4 s`, `12 min` or `3 h 05 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


_tally: Tally | None = None


def report(state: str) -> None:
    """Tell that a case has ended, and in which state."""
    if _tally is not None:
        _tally.states[state] += 1
        _show(_tally)


_bar: Progress | None = None
_last_line = 0.0


def _show(tally: Tally) -> None:
    global _last_line
    if _bar is not None:
        _bar.update(_bar.task_ids[0], completed=tally.finished, line=tally.line())
    elif time.monotonic() - _last_line >= EVERY:
        _last_line = time.monotonic()
        print(tally.line(), file=sys.stderr, flush=True)


@contextmanager
def shown(cases: int, kept: int = 0, quiet: bool = False) -> Iterator[None]:
    """Show progress on stderr while the block runs.

    Args:
        cases: How many cases the run has.
        kept: How many of them an earlier run has finished.
        quiet: Show nothing.
    """
    global _tally, _bar, _last_line
    if quiet:
        yield
        return
    _tally, _last_line = Tally(cases, kept), time.monotonic()
    console = Console(stderr=True)
    try:
        if not console.is_terminal:
            yield
            return
        columns = (BarColumn(bar_width=24), TextColumn("{task.fields[line]}"))
        with Progress(*columns, console=console, transient=True) as bar:
            _bar = bar
            bar.add_task("cases", total=cases, completed=kept, line="starting")
            yield
    finally:
        _tally, _bar = None, None
