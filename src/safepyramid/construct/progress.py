"""How far a construction run has come: one line, renewed in a terminal, else now and then."""

import itertools
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import anyio

from safepyramid.construct.costs import Bill, dollars
from safepyramid.construct.records import STAGES, Record
from safepyramid.construct.work import Outcome
from safepyramid.runs.progress import EVERY, duration

RENEWED = 0.2
"""Seconds between looks of the line in a terminal."""


class Progress:
    """Counts what is done and says so on stderr.

    Args:
        conversations: How many are to be made.
        quiet: Say nothing.
        bill: What earlier runs of the folder came to; this one's calls are added to it.
    """

    def __init__(
        self, conversations: int, *, quiet: bool = False, bill: Bill | None = None
    ) -> None:
        self.conversations = conversations
        self.quiet = quiet or sys.stderr is None
        self.bill = bill or Bill()
        self.stages: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.standings: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        """Reasons of calls that failed -> how many."""
        self._under_way: dict[int, float] = {}
        """Number of a question -> when it was asked, the oldest first."""
        self._numbers = itertools.count()
        self._began = self._shown = time.monotonic()
        self._terminal = not self.quiet and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._say(f"\r{self.line()}\x1b[K" if self._terminal else self.line())

    @property
    def in_vain(self) -> str:
        """That no question of this run got a reply, and why; empty if one did or none was asked."""
        if not self.failures or self.failures.total() < self.stages.total():
            return ""
        (reason, count), *others = self.failures.most_common()
        more = f"; {sum(n for _, n in others):,} failed otherwise" if others else ""
        return f"no question got a reply ({count:,} failed: {reason}{more})"

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A question is under way for as long as the block runs."""
        number = next(self._numbers)
        self._under_way[number] = time.monotonic()
        try:
            yield
        finally:
            del self._under_way[number]

    async def beat(self) -> None:
        """Show the line now and then, also while nothing comes back; ends when it is cancelled."""
        while True:
            await anyio.sleep(RENEWED if self._terminal else 1.0)
            self._show()

    def recorded(self, record: Record) -> None:
        """A question has been answered."""
        self.stages[record.stage] += 1
        self.bill.add(record)
        if record.state != "done":
            self.bad[record.state] += 1
        if record.state == "error":
            self.failures[record.reason] += 1
        self._show()

    def finished(self, outcome: Outcome) -> None:
        """A conversation has gone as far as it goes."""
        self.standings[outcome.standing] += 1
        self._show()

    def line(self) -> str:
        """All counts in one line."""
        parts = [f"{self.standings['complete']} of {self.conversations} complete"]
        parts += [f"{n} {name}" for name, n in sorted(self.standings.items()) if name != "complete"]
        asked = [f"{stage} {self.stages[stage]}" for stage in STAGES if self.stages[stage]]
        parts.append("new answers: " + (", ".join(asked) or "none"))
        parts += [f"{n} {state}" for state, n in sorted(self.bad.items())]
        now = time.monotonic()
        if self._under_way:
            waited = duration(now - next(iter(self._under_way.values())))
            parts.append(f"{len(self._under_way):,} under way, the oldest for {waited}")
        parts.append(dollars(self.bill.price, self.bill.unpriced))
        parts.append(duration(now - self._began))
        return " · ".join(parts)

    def _show(self) -> None:
        now = time.monotonic()
        if self.quiet or now - self._shown < (RENEWED if self._terminal else EVERY):
            return
        self._shown = now
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._say(f"\r{self.line()[:width]}\x1b[K", end="")
        else:
            self._say(self.line())

    def _say(self, text: str, end: str = "\n") -> None:
        """Print on stderr. Where that fails, as on a dead pipe, the run goes on in silence."""
        if self.quiet:
            return
        try:
            print(text, end=end, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self.quiet = True
