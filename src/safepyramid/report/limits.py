"""What a report's numbers do not show: the sentences that stand beside them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from safepyramid.analysis.runs import Run
from safepyramid.metrics.summary import ratio
from safepyramid.report.charts import percent
from safepyramid.report.text import counted
from safepyramid.schema import RuleType, State

PUBLISHED_CASES = 3_000


def report_limits(runs: Sequence[Run]) -> list[str]:
    """What holds for all runs of a report."""
    limits = [
        "That one run is better than another whose interval overlaps: see Compare, which tests the "
        "difference on the cases that both answered. The small numbers under a place are the places "
        "taken in 95 % of the resamples.",
        "That a guard which answers less is better. Refused, blocked, cut and unreadable answers leave RMR "
        "and RDR; the lower bound counts them as misses, and places go by it.",
        "Anything about a model's ups and downs from run to run: an interval is about other "
        "conversations like these, for the answers that were given.",
        "That a guard is safe to deploy. Conversations and policies are fictional English text; no people "
        "were measured on them; and a share of matched rule sets is not a rate of harm prevented.",
    ]
    if len({run.origin.protocol for run in runs}) > 1:
        limits.append(
            "That per-rule is better or worse than per-policy by the difference of two rows: per-rule hands "
            "over with each rule the rules that touch it, which per-policy leaves to the guard."
        )
    if any(len(run.cases) != PUBLISHED_CASES for run in runs):
        limits.append(
            "That a run beats a published row: published rows stand on the 3,000 cases of the published "
            "data, with prompts of their own."
        )
    return limits


def run_limits(run: Run, pooled: Mapping[str, Any], repeats: int) -> list[str]:
    """What one run does not show.

    Args:
        run: The run.
        pooled: Its row over all levels in the table of results.
        repeats: How many runs of the report were made in the same way, itself included.
    """
    return list(_run_limits(run, pooled, repeats))


def _run_limits(run: Run, pooled: Mapping[str, Any], repeats: int) -> Iterator[str]:
    conversations = len({case.conversation_id for case in run.cases})
    low, high = pooled["rmr_low"], pooled["rmr_high"]
    if low is not None:
        yield (
            f"More precision than there is: on {counted(len(run.cases), 'case')} of "
            f"{counted(conversations, 'conversation')}, an RMR of {percent(pooled['rmr'])} could as well have been {percent(low)} to {percent(high)}. The three levels share "
            "conversations, so cases are fewer than they look, and a domain has fewer still."
        )
    yield from _unanswered(run, pooled)
    if repeats == 1:
        yield (
            "That the same model would score the same again: this is one run of it, and the report has "
            "no other that was made in the same way."
        )
    if run.origin.model:
        yield (
            f"That {run.origin.model} scores this under other prompts, settings or dates: a provider's "
            "name can stand for another model tomorrow."
        )
    if run.origin.protocol == "per_rule":
        yield (
            "That the guard can follow a whole policy: per-rule hands over with each rule the rules that touch "
            "it, and adds the verdicts up for the guard."
        )
    share = _none_accuracy(run)
    if share is not None:
        yield (
            f"Much from accuracy per rule: calling nothing violated is right on {percent(share)} % of these "
            "rules."
        )
    if len(run.cases) != PUBLISHED_CASES:
        yield (
            f"A result on the published benchmark: the run stands on {counted(len(run.cases), 'case')} with the "
            f"data hash {run.data_hash[:12]}, not on its {PUBLISHED_CASES:,}."
        )


def _unanswered(run: Run, pooled: Mapping[str, Any]) -> Iterator[str]:
    states = [said.state for said in run.predictions.values()]
    counts = {state: states.count(state) for state in State if state is not State.ANSWERED}
    left = sum(counts.values())
    if not left:
        return
    named = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    if left == len(states):
        yield (
            f"Anything about what it finds: not one of its {counted(left, 'case')} was answered ({named}), so there is "
            "no RMR and no RDR. Counted as misses they make 0.0."
        )
        return
    yield (
        f"RMR {percent(pooled['rmr'])} for all cases: {left:,} of {len(states):,} {'was' if left == 1 else 'were'} not "
        f"answered ({named}) and left out of it. Counted as misses they bring it to {percent(pooled['rmr_lower_bound'])}; a guard that "
        "answers the easy cases only looks better than it is."
    )


def _none_accuracy(run: Run) -> float | None:
    """The share of the rules, but for conditionals, that are not violated."""
    rules = violated = 0
    for case in run.cases:
        kinds = [kind for kind in case.rule_types.values() if kind is not RuleType.CONDITIONAL]
        rules += len(kinds)
        violated += len(case.ground_truth_violations)
    return ratio(rules - violated, rules)
