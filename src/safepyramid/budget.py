"""What a run may spend: every call is held to it before it is made, those under way included."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from safepyramid.errors import RunError

TURNED_AWAY = frozenset({"content_filter", "model_length"})
"""Stop reasons of calls that a provider may end without an answer, and without saying what it took."""


class BudgetSpent(RunError):
    """The budget does not reach for one more call. What is not asked for this is no failure."""


class Budget:
    """What a run may spend in US dollars, what it has spent, and what is under way.

    A call that is under way is taken to cost what calls of its kind have cost on average. Until
    one of a kind has come back with a price, few are let go: one, and one more for each that failed.

    Args:
        limit: US dollars.
        spent: What counts as spent already.
    """

    def __init__(self, limit: float, spent: float = 0.0) -> None:
        self.limit = limit
        self.spent = spent
        self._reserved = 0.0
        self._under_way: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._paid: Counter[str] = Counter()
        self._sums: dict[str, float] = {}
        self._unpriced = False
        self._changed: anyio.Event | None = None

    def expected(self, kind: str, least: float) -> float:
        """The price of the next call of a kind: the mean so far; before any, the least it can be."""
        return self._sums[kind] / self._paid[kind] if self._paid[kind] else least

    @asynccontextmanager
    async def hold(self, kind: str, least: float) -> AsyncIterator[Callable[[float | None], None]]:
        """Hold a call to the budget: wait while calls under way may use it up, refuse once they have.

        Args:
            kind: Calls of a kind are taken to cost about the same.
            least: The least that this one can cost, such as the price of its prompt.

        Yields:
            What to call with the price of a reply; None where it is not known, which ends all
            calls, because the limit cannot hold any more.

        Raises:
            BudgetSpent: The budget does not reach for one more call.
        """
        while not self._unpriced and self._must_wait(kind, least):
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()
        expected = self.expected(kind, least)
        if self._unpriced:
            raise BudgetSpent(
                "a reply came without its tokens, so that its price is not known and --cost-limit "
                "cannot hold; leave it out, or use a server that counts them"
            )
        if self.spent + expected > self.limit:
            raise BudgetSpent(
                f"cost limit of ${self.limit:g} reached; run the same command with a higher "
                "--cost-limit to go on where this run stopped"
            )
        self._reserved += expected
        self._under_way[kind] += 1
        priced = False

        def spend(price: float | None) -> None:
            nonlocal priced
            priced = True
            self.count(kind, price)

        try:
            yield spend
        finally:
            self._under_way[kind] -= 1
            self._failed[kind] += not priced
            # exact once nothing is under way, whatever rounding has left
            self._reserved = self._reserved - expected if self._under_way.total() else 0.0
            if self._changed is not None:
                self._changed.set()
                self._changed = None

    def _must_wait(self, kind: str, least: float) -> bool:
        if not self._under_way.total():
            return False
        if least and not self._paid[kind] and self._under_way[kind] > self._failed[kind]:
            return True
        return self.spent + self._reserved + self.expected(kind, least) > self.limit

    def count(self, kind: str, price: float | None) -> None:
        """Count a call that has been paid for; None ends all calls, see `hold`."""
        if price is None:
            self._unpriced = True
            return
        self.spent += price
        if price:  # what a cache gave says nothing of what the next one costs
            self._paid[kind] += 1
            self._sums[kind] = self._sums.get(kind, 0.0) + price
