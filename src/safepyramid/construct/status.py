"""How a run stands: what is finished, what waits, what failed and why, what it has cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from safepyramid.construct.costs import bills, dollars
from safepyramid.construct.measures import as_json, drop_table, failed_checks, setbacks
from safepyramid.construct.records import Record
from safepyramid.construct.runs import Loaded
from safepyramid.construct.work import STEPS, Outcome

SHOWN = 12
"""So many conversations of a kind are listed; the others are counted."""


def status(loaded: Loaded) -> dict[str, Any]:
    """How a run stands, as plain values.

    Returns:
        `conversations` in all; `standings` (complete, review, open, failed) -> how many; `steps`:
        where those that are not complete are; `unfinished`: each of them with `step` and
        `reason`; `waiting`: the rules that a person must decide about; `answers`: stage -> state
        -> answers that the outcomes rest on; `unreadable`: reasons of those that could not be used
        -> how many; `unused`: how many answers nothing rests on any more;
        `notes`: what of the decisions by people does nothing;
        `dropped`, `failed_checks` and `setbacks`: counts; `bills`: stage and model -> calls,
        tokens, price of the calls whose price is known (null if that of none is), `unpriced` and
        `unmeasured` calls.
    """
    outcomes = loaded.outcomes
    unfinished = [outcome for outcome in outcomes if outcome.standing != "complete"]
    answers: dict[str, Counter[str]] = {}
    for record in loaded.answers:
        answers.setdefault(record.stage, Counter())[record.state] += 1
    return {
        "conversations": len(outcomes),
        "standings": dict(Counter(outcome.standing for outcome in outcomes)),
        "steps": {step: sum(o.step == step for o in unfinished) for step in STEPS},
        "unfinished": [
            {"id": o.made.id, "standing": o.standing, "step": o.step, "reason": o.reason}
            for o in unfinished
        ],
        "waiting": [
            {
                "conversation": subject.conversation,
                "level": subject.level.value,
                "key": subject.key,
                "content": subject.content,
                "why": subject.why,
            }
            for outcome in outcomes
            for subject in outcome.waiting
        ],
        "answers": {stage: dict(counts) for stage, counts in answers.items()},
        "unreadable": _reasons(loaded.answers),
        "unused": sum(1 for _ in loaded.journal.current()) - len(loaded.answers),
        "notes": loaded.decisions.notes(),
        "dropped": {level: dict(counts) for level, counts in drop_table(outcomes).items()},
        "failed_checks": as_json(dict(failed_checks(outcomes))),
        "setbacks": as_json(dict(setbacks(outcomes))),
        "bills": as_json(
            {
                about: {
                    "calls": bill.calls,
                    "corrections": bill.corrections,
                    "input_tokens": bill.input_tokens,
                    "output_tokens": bill.output_tokens,
                    "price": bill.price,
                    "unpriced": bill.unpriced,
                    "unmeasured": bill.unmeasured,
                }
                for about, bill in bills(loaded.journal.all()).items()
            }
        ),
    }


def _reasons(records: Sequence[Record]) -> dict[str, int]:
    def line(record: Record) -> str:
        return f"{record.stage}: {record.model}: {record.state}: {record.reason[:120]}"

    counts = Counter(line(record) for record in records if record.state != "done")
    return dict(counts.most_common())


def render_status(found: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """The status as lines for a person."""
    standings = found["standings"]
    lines = [
        f"{standings.get('complete', 0):,} of {found['conversations']:,} conversations complete",
        *_group("wait for a person", outcomes, "review"),
        *_group("not finished (the same `build run` goes on)", outcomes, "open"),
        *_group("failed", outcomes, "failed"),
        "",
        "answers by stage:",
    ]
    for stage, counts in found["answers"].items():
        listed = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
        lines.append(f"  {stage}: {listed}")
    if found["unused"]:
        lines.append(f"  no longer used, set aside or put otherwise since: {found['unused']:,}")
    if found["unreadable"]:
        lines += ["", "answers that could not be used:"]
        shown = list(found["unreadable"].items())[:SHOWN]
        lines += [f"  {count:,} × {reason}" for reason, count in shown]
    if found["notes"]:
        lines += ["", *found["notes"]]
    lines += ["", "rules written and dropped:"]
    for level, counts in found["dropped"].items():
        gone = ", ".join(
            f"{count:,} {stage}" for stage, count in counts.items() if stage != "drafted"
        )
        lines.append(f"  {level}: {counts.get('drafted', 0):,} written; dropped: {gone or 'none'}")
    for name, title in (("failed_checks", "failed checks"), ("setbacks", "attempts set aside")):
        if found[name]:
            listed = ", ".join(f"{what} {count:,}" for what, count in found[name].items())
            lines.append(f"  {title}: {listed}")
    everything = found["bills"].values()
    calls = sum(bill["calls"] for bill in everything)
    price = fsum(bill["price"] or 0.0 for bill in everything)
    cost = dollars(price, sum(bill["unpriced"] for bill in everything))
    return "\n".join([*lines, "", f"{calls:,} calls, {cost}"])


def _group(title: str, outcomes: Sequence[Outcome], standing: str) -> list[str]:
    chosen = [outcome for outcome in outcomes if outcome.standing == standing]
    if not chosen:
        return []
    lines = [f"{len(chosen):,} {title}:"]
    lines += [f"  {o.made.id} at {o.step}: {o.reason[:160]}" for o in chosen[:SHOWN]]
    return lines + ([f"  and {len(chosen) - SHOWN:,} more"] if len(chosen) > SHOWN else [])
