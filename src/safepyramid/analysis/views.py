"""The named tables: how each is computed from runs, and how it is laid out for people."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from safepyramid.analysis import layouts, tables
from safepyramid.analysis.ablations import ablation
from safepyramid.analysis.causes import causes
from safepyramid.analysis.compare import DRAWS as PAIRED_DRAWS
from safepyramid.analysis.compare import repeats
from safepyramid.analysis.cost import cost
from safepyramid.analysis.layout import Table
from safepyramid.analysis.runs import Runs
from safepyramid.metrics.stats import DRAWS


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked of a table."""

    published: bool = True
    seed: int = 0
    draws: int | None = None
    """Resamples; None for each table's own default."""


@dataclass(frozen=True, slots=True)
class View:
    """A named table."""

    about: str
    compute: Callable[[Runs, Options], pd.DataFrame]
    lay_out: Callable[[pd.DataFrame], Table]


def _draws(options: Options, default: int) -> int:
    return default if options.draws is None else options.draws


def _resampled(function: Callable[..., pd.DataFrame]) -> Callable[[Runs, Options], pd.DataFrame]:
    return lambda runs, o: function(
        runs, published=o.published, seed=o.seed, draws=_draws(o, DRAWS)
    )


VIEWS: dict[str, View] = {
    "results": View(
        "RMR, RMR@1.0, RDR and lower bound per level, with intervals, ranks and baselines",
        _resampled(tables.results),
        layouts.lay_out_results,
    ),
    "thresholds": View(
        "RMR@τ for six τ", _resampled(tables.thresholds), layouts.lay_out_thresholds
    ),
    "domains": View(
        "the results per domain",
        lambda runs, o: tables.domains(runs, seed=o.seed, draws=_draws(o, DRAWS)),
        layouts.lay_out_domains,
    ),
    "states": View(
        "how the cases ended", lambda runs, _: tables.states(runs), layouts.lay_out_states
    ),
    "rule-types": View(
        "accuracy, precision, recall and F1 per rule type",
        lambda runs, _: tables.rule_types(runs),
        layouts.lay_out_rule_types,
    ),
    "errors": View(
        "which kind of rule the errors come from",
        lambda runs, o: tables.error_types(runs, seed=o.seed, draws=_draws(o, DRAWS)),
        layouts.lay_out_errors,
    ),
    "causes": View(
        "the errors by what the wrong rule was and what acts on it",
        lambda runs, _: causes(runs),
        layouts.lay_out_causes,
    ),
    "failures": View(
        "how cases fail: the paper's failure modes",
        lambda runs, _: tables.failure_modes(runs),
        layouts.lay_out_failures,
    ),
    "effort": View(
        "runs that differ in reasoning effort only",
        lambda runs, o: ablation(
            runs, "effort", published=o.published, seed=o.seed, draws=_draws(o, PAIRED_DRAWS)
        ),
        lambda frame: layouts.lay_out_ablation(frame, "effort"),
    ),
    "harness": View(
        "runs that differ in the harness only",
        lambda runs, o: ablation(
            runs, "harness", published=o.published, seed=o.seed, draws=_draws(o, PAIRED_DRAWS)
        ),
        lambda frame: layouts.lay_out_ablation(frame, "harness"),
    ),
    "cost": View(
        "calls, tokens and price by role", lambda runs, _: cost(runs), layouts.lay_out_cost
    ),
    "repeats": View(
        "how far runs that repeat each other agree",
        lambda runs, _: repeats(runs),
        layouts.lay_out_repeats,
    ),
}
"""Name -> table."""
