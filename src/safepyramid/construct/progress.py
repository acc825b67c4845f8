"""How far a construction run has come: one line, renewed in a terminal, else now and then."""

import shutil
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Self

from safepyramid.construct.records import STAGES, Record
from safepyramid.construct.work import Outcome
from safepyramid.progress import EVERY, duration

RENEWED = 0.2
"""Seconds between looks of the line in a terminal."""


class Progress:
    """Counts what is done and says so on stderr.

    Args:
        conversations: How many are to be made.
        quiet: Say nothing.
        spent: US dollars that earlier runs of the folder cost.
    """

    def __init__(self, conversations: int, *, quiet: bool = False, spent: float = 0.0) -> None:
        self.conversations = conversations
        self.quiet = quiet
        self.spent = spent
        self.stages: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.standings: Counter[str] = Counter()
        self.unpriced = False
        self._began = self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.quiet:
            print(("\r" if self._terminal else "") + self.line(), file=sys.stderr, flush=True)

    def recorded(self, record: Record) -> None:
        """A question has been answered."""
        self.stages[record.stage] += 1
        self.unpriced = self.unpriced or record.price is None
        self.spent += record.price or 0.0
        if record.state != "done":
            self.bad[record.state] += 1
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
        parts.append(f"${self.spent:,.2f}{' and calls of unknown price' if self.unpriced else ''}")
        parts.append(duration(time.monotonic() - self._began))
        return " · ".join(parts)

    def _show(self) -> None:
        now = time.monotonic()
        if self.quiet or now - self._shown < (RENEWED if self._terminal else EVERY):
            return
        self._shown = now
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{self.line()[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(self.line(), file=sys.stderr, flush=True)
