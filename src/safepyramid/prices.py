"""What tokens cost, at list prices. An unknown price is None, never 0."""

from datetime import datetime
from functools import lru_cache


def price_of(
    model: str,
    input_tokens: int,
    output_tokens: int,
    cached: int = 0,
    written: int = 0,
    *,
    calls: int = 1,
    day: str | None = None,
) -> float | None:
    """The list price of some calls in US dollars.

    Some prices rise with the size of a call, so that the tokens of many calls must not be priced
    as those of one: each call is taken to have the average size.

    Args:
        model: As Inspect names it, `provider/model`.
        input_tokens: All prompt tokens, cached ones included, over all calls.
        output_tokens: All generated tokens, thinking included.
        cached: The part of `input_tokens` that is billed as read from a cache.
        written: The part of `input_tokens` that is billed as written to a cache.
        calls: How many calls, at least 1.
        day: The date whose prices count, ISO 8601; default today.

    Returns:
        None where no price is known for the model on that day.
    """
    shares = (round(n / calls) for n in (input_tokens, output_tokens, cached, written))
    each = _price(model, *shares, day=day[:10] if day else None)
    return None if each is None else each * calls


_SELLER = {"grok": "x-ai"}
"""Inspect's name of a provider -> the price list's, where they differ."""


@lru_cache(maxsize=100_000)
def _price(
    model: str, input_tokens: int, output_tokens: int, cached: int, written: int, day: str | None
) -> float | None:
    from genai_prices import Usage, calc_price

    provider, _, name = model.partition("/")
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cached or None,
        cache_write_tokens=written or None,
    )
    try:
        found = calc_price(
            usage,
            model_ref=name,
            provider_id=_SELLER.get(provider, provider),
            genai_request_timestamp=datetime.fromisoformat(day) if day else None,
        )
    except (LookupError, ValueError):
        return None
    return float(found.total_price)
