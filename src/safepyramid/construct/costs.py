"""What calls cost, at list prices. An unknown price is None, never zero."""

from collections.abc import Iterable
from math import fsum

from safepyramid.budget import TURNED_AWAY, Budget
from safepyramid.construct.records import Call, Record
from safepyramid.errors import RunError
from safepyramid.prices import price_of


def priced(
    model: str,
    input_tokens: int | None,
    output_tokens: int | None,
    cached: int = 0,
    written: int = 0,
    *,
    calls: int = 1,
) -> float | None:
    """The price of some calls in US dollars; None where price or tokens are not known."""
    if input_tokens is None or output_tokens is None:
        return None
    return price_of(model, input_tokens, output_tokens, cached, written, calls=calls)


def require_prices(models: Iterable[str]) -> None:
    """Check that every model has a price, which a cost limit needs.

    Raises:
        RunError: Some have none; all are named.
    """
    unknown = sorted({model for model in models if priced(model, 1000, 1000) is None})
    if unknown:
        raise RunError(
            f"no price is known for {', '.join(unknown)}, so --cost-limit cannot hold; leave it "
            "out, and bound the run with fewer conversations"
        )


def budget_from(limit: float, records: Iterable[Record]) -> Budget:
    """The budget of a folder, with what its records cost already spent, call by call.

    Raises:
        RunError: The price of a reply is not known, so that the limit cannot hold.
    """
    budget, uncounted = Budget(limit), 0
    for record in records:
        uncounted += sum(map(is_uncounted, record.calls))
        if (price := known_price(record)) is not None:
            budget.count(kind_of(record.stage, record.model), price)
    if uncounted:
        raise RunError(
            f"earlier replies came without their tokens ({uncounted:,}), so that --cost-limit "
            "cannot hold for this folder; leave it out, or begin anew in another"
        )
    return budget


def kind_of(stage: str, model: str) -> str:
    """The questions of a stage to a model, which cost about the same."""
    return f"{stage} {model}"


def known_price(record: Record) -> float | None:
    """What those calls of a record cost whose price is known; None if there are none."""
    known = [call.price for call in record.calls if call.price is not None]
    return fsum(known) if known else None


def is_uncounted(call: Call) -> bool:
    """Whether a call was answered, and what it cost is not known."""
    return call.price is None and not call.error and call.stop_reason not in TURNED_AWAY


class Bill:
    """What some calls came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.corrections = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.unmeasured = 0
        """Calls for which the provider did not say how many tokens they took: not in the sums."""
        self.unpriced = 0
        """Calls whose price is not known: failed, unmeasured, or of a model without a price."""
        self._prices: list[float] = []

    @property
    def price(self) -> float | None:
        """US dollars of the calls whose price is known, in any order; None if that of none is."""
        return fsum(self._prices) if self._prices or not self.calls else None

    def add(self, record: Record) -> None:
        """Put a record on the bill."""
        self.corrections += max(0, len(record.calls) - 1)
        for call in record.calls:
            self._add(call)

    def _add(self, call: Call) -> None:
        self.calls += 1
        if call.input_tokens is None or call.output_tokens is None:
            self.unmeasured += 1
        self.input_tokens += call.input_tokens or 0
        self.output_tokens += call.output_tokens or 0
        self.cached_tokens += call.cached_tokens or 0
        if call.price is None:
            self.unpriced += 1
        else:
            self._prices.append(call.price)


def bills(records: Iterable[Record]) -> dict[tuple[str, str], Bill]:
    """Stage and model -> bill, sorted."""
    found: dict[tuple[str, str], Bill] = {}
    for record in records:
        found.setdefault((record.stage, record.model), Bill()).add(record)
    return dict(sorted(found.items()))


def bill_of(records: Iterable[Record]) -> Bill:
    """One bill for all of them."""
    bill = Bill()
    for record in records:
        bill.add(record)
    return bill


def dollars(price: float | None, unpriced: int) -> str:
    """A sum of known prices, and how many calls are not in it.

    >>> dollars(1.5, 0), dollars(1.5, 2), dollars(None, 1)
    ('$1.50', '$1.50 and 2 calls of unknown price', '1 call of unknown price')
    """
    known = [] if price is None else [f"${price:,.2f}"]
    unknown = [f"{unpriced:,} call{'s' * (unpriced > 1)} of unknown price"] if unpriced else []
    return " and ".join([*known, *unknown])
