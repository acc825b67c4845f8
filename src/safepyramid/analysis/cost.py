"""What runs used, and what that costs at list prices."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from safepyramid.analysis.runs import TOKENS, Run, Runs, Usage, total
from safepyramid.metrics.summary import POOLED, ratio, summarize
from safepyramid.prices import price_of
from safepyramid.schema import State

if TYPE_CHECKING:
    import pandas as pd

ALL_ROLES = "all"
"""The row of a run's cost that holds all of its roles."""


def cost(runs: Runs) -> "pd.DataFrame":
    """Calls, tokens, price and time of each run, by role, beside its score.

    Returns:
        A row per run and `role`, with a last one for "all" where there are several roles: `model`,
        `calls`, the five kinds of tokens, `price` in US dollars, `price_per_case` (over the cases that
        were asked), and on each run's last row `seconds_per_case` (mean, waiting included), `rmr` and
        `rmr_lower_bound` (pooled), `alike`, `price_date` and `price_source`. What is not known is
        missing, never 0.
    """
    from safepyramid.analysis.estimates import alike, labels, ordered, to_frame

    rows = []
    for members in runs.blocks().values():
        for run in ordered(members):
            uses = list(run.usage)
            if len(uses) != 1:
                sums = {
                    n: total([getattr(u, n) for u in uses]) for n in ("calls", *TOKENS, "price")
                }
                uses.append(Usage(ALL_ROLES, run.origin.model or "", **sums))
            lines = [{**labels(run, POOLED), **_use_row(use, run)} for use in uses]
            lines[-1].update(_run_columns(run, priced=lines[-1]["price"] is not None))
            lines[-1]["alike"] = alike(members, POOLED)
            rows += lines
    return to_frame(rows)


def _use_row(use: Usage, run: Run) -> dict[str, Any]:
    # A case that was not asked has cost nothing, and would make the others look cheap.
    asked = sum(said.state is not State.MISSING for said in run.predictions.values())
    return {
        **{name: getattr(use, name) for name in Usage.__slots__},
        "price_per_case": None if use.price is None else ratio(use.price, asked),
    }


def _run_columns(run: Run, *, priced: bool) -> dict[str, Any]:
    cell = summarize(run.records)["groups"][POOLED]
    seconds = list(run.seconds.values())
    return {
        "seconds_per_case": sum(seconds) / len(seconds) if seconds else None,
        "rmr": cell["rmr"],
        "rmr_lower_bound": cell["rmr_lower_bound"],
        "price_date": run.origin.price_date if priced else None,
        "price_source": run.origin.price_source if priced else None,
    }


def price_source() -> str:
    """The price list that prices are read from, with its version."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def price_of_calls(model: str, tokens: Mapping[str, int], calls: int, day: str) -> float | None:
    """The list price of some calls in US dollars, by kinds of tokens.

    Args:
        model: As Inspect names it, `provider/model`.
        tokens: Kind of tokens, as in `runs.TOKENS` -> how many, over all calls.
        calls: How many calls, at least 1.
        day: The date whose prices count, ISO 8601.

    Returns:
        None where no price is known for the model on that day.
    """
    read, written = tokens["cache_read_tokens"], tokens["cache_write_tokens"]
    # The price list counts cached tokens among the input.
    sent = tokens["input_tokens"] + read + written
    return price_of(model, sent, tokens["output_tokens"], read, written, calls=calls, day=day)
