"""What calls cost, at list prices. An unknown price is None, never zero."""

from collections.abc import Iterable
from math import fsum

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


class Bill:
    """What some calls came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.corrections = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.unmeasured = 0
        """Calls for which the provider did not say how many tokens they took."""
        self._prices: list[float | None] = []

    @property
    def price(self) -> float | None:
        """US dollars, whatever the order of the calls; None if the price of one is not known."""
        known = [price for price in self._prices if price is not None]
        return fsum(known) if len(known) == len(self._prices) else None

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
        self._prices.append(call.price)


def bills(records: Iterable[Record]) -> dict[tuple[str, str], Bill]:
    """Stage and model -> bill, sorted."""
    found: dict[tuple[str, str], Bill] = {}
    for record in records:
        found.setdefault((record.stage, record.model), Bill()).add(record)
    return dict(sorted(found.items()))
