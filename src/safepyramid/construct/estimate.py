"""What a construction run will ask and cost, before anything is spent.

Real prompts are rendered with a bundled conversation and its policies standing in for those that
will be made, and scaled to the sizes asked for. The least is a run in which all passes at once and
no model thinks; the most, one with repairs, second attempts, corrections and long thinking. How
many calls a policy's votes take is counted policy by policy.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from math import ceil, sqrt

from safepyramid.construct.author import (
    conversation_question,
    framework_question,
    repair_question,
    rules_question,
)
from safepyramid.construct.costs import priced
from safepyramid.construct.drafts import as_drafts
from safepyramid.construct.draws import draw_counts, draw_instruction
from safepyramid.construct.questions import Question
from safepyramid.construct.runs import Run
from safepyramid.construct.source import SourceConversation, read_source
from safepyramid.construct.votes import Ballot, vote_questions
from safepyramid.conversation import render_conversation
from safepyramid.guards.base import Message
from safepyramid.schema import Level, RuleType
from safepyramid.tokens import estimate_tokens as _tokens

STAND_IN = "frau-001.yaml"
"""The bundled conversation that stands in."""
ANSWER_TOKENS = 75
"""Of a validator's answer to one question: quote, reason, and their form."""
JUDGED_TOKENS = 70
"""Of a rule's judgments, quotes and reason, beside its text."""
THINKING = 4.0
"""Output, thinking included, as a multiple of the answer, where a model thinks long."""
REPAIRED = 0.3
"""Share of rules that fail at first, and are mended and voted on again, at most."""
AGAIN = 0.25
"""Share of attempts that are made again, at most, in a large run."""
CORRECTED = 0.2
"""Share of answers that are asked for once more in the right form, at most."""


@dataclass(frozen=True, slots=True)
class Need:
    """Calls and tokens, from least to most."""

    calls: tuple[float, float] = (0, 0)
    input_tokens: tuple[float, float] = (0, 0)
    shared_tokens: float = 0
    """The part of the least input that repeats the prefix of an earlier call to the same model."""
    output_tokens: tuple[float, float] = (0, 0)

    def plus(self, other: "Need") -> "Need":
        """Both together."""
        return Need(
            _sum(self.calls, other.calls),
            _sum(self.input_tokens, other.input_tokens),
            self.shared_tokens + other.shared_tokens,
            _sum(self.output_tokens, other.output_tokens),
        )

    def price(self, model: str) -> tuple[float, float] | None:
        """US dollars, from least (prefixes cached) to most; None if the price is not known."""
        low = priced(
            model,
            round(self.input_tokens[0]),
            round(self.output_tokens[0]),
            round(self.shared_tokens),
            calls=max(1, round(self.calls[0])),
        )
        high = priced(
            model,
            round(self.input_tokens[1]),
            round(self.output_tokens[1]),
            calls=max(1, round(self.calls[1])),
        )
        return None if low is None or high is None else (low, high)


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


def estimate(run: Run) -> dict[tuple[str, str], Need]:
    """Role and model -> what it will be asked, for the whole run."""
    with as_file(files("safepyramid") / "data" / "sample" / STAND_IN) as path:
        source = read_source(path)
    needs: dict[tuple[str, str], Need] = {}
    for role, question, need in _needs(run, source):
        about = (role, question.role.model)
        needs[about] = needs.get(about, Need()).plus(need)
    return needs


def _most_attempts(run: Run) -> float:
    """How often a conversation or a level is made at most, on average.

    In a small run chance weighs more: two standard deviations on top of the share.
    """
    spread = 2 * sqrt(AGAIN * (1 - AGAIN) / len(run.made))
    share = min(1.0, AGAIN + spread)
    return sum(share**attempt for attempt in range(run.settings.attempts))


def _needs(run: Run, source: SourceConversation) -> Iterator[tuple[str, Question, Need]]:
    """What all conversations take, question by question."""
    materials, made, turns = run.materials, run.made[0], source.turns
    asked = conversation_question(materials, made, 1, ())
    yield "conversation", asked, _written(run, asked, _tokens(render_conversation(turns)))
    inherited = [0] * len(run.made)
    for level in Level:
        own = source.policies[level].rules
        below = source.rules(Level.L1) if level is Level.L2 else source.rules(Level.L0)
        framework = source.policies[level].framework
        drawn = [
            draw_counts(run.settings, each, level, taken if level is Level.L1 else 0)
            for each, taken in zip(run.made, inherited, strict=True)
        ]
        counts = [sum(each.values()) for each in drawn]
        role = level.lower()
        if level is Level.L2:
            asked = framework_question(materials, made, 1, turns, below, ())
            yield role, asked, _written(run, asked, _tokens(framework))
        asked = rules_question(materials, made, level, 1, turns, drawn[0], below, framework)
        written = _tokens(json.dumps(as_drafts(own))) + JUDGED_TOKENS * len(own)
        answer = round(written * sum(counts) / (len(counts) * len(own)))
        yield role, asked, _written(run, asked, answer)
        mended = own[: max(1, round(REPAIRED * len(own)))]
        asked = repair_question(
            materials,
            made,
            level,
            1,
            turns,
            source.rules(level),
            [rule.model_dump(mode="json") for rule in mended],
            framework,
        )
        need = _written(run, asked, round(REPAIRED * answer))
        yield (
            role,
            asked,
            Need((0, need.calls[1]), (0, need.input_tokens[1]), 0, (0, need.output_tokens[1])),
        )
        whole = [n + taken for n, taken in zip(counts, inherited, strict=True)]
        yield from _votes(run, source, level, counts, whole if level is Level.L1 else counts)
        inherited = counts


def _written(run: Run, asked: Question, answer: int) -> Need:
    """An author's calls for one question of each conversation."""
    told = sum(_tokens(part) for message in asked.prompt.messages for part in _parts(message))
    calls = len(run.made)
    most = calls * _most_attempts(run)
    return Need(
        (calls, most * (1 + CORRECTED)),
        (calls * told, most * (told + CORRECTED * (told + answer))),
        0,
        (calls * answer, most * (1 + CORRECTED) * answer * THINKING),
    )


def _votes(
    run: Run,
    source: SourceConversation,
    level: Level,
    counts: Sequence[int],
    whole: Sequence[int],
) -> Iterator[tuple[str, Question, Need]]:
    """The votes on a level of each conversation.

    Args:
        run: What will be made.
        source: What stands in.
        level: Which level.
        counts: Of each conversation: rules that are voted on.
        whole: Of each conversation: rules of the policy.
    """
    ballot = _stand_in(run, source, level)
    own, size = source.policies[level].rules, run.settings.rules_per_call
    again = [ceil(REPAIRED * count) for count in counts]
    calls, second = (sum(ceil(n / size) for n in numbers) for numbers in (counts, again))
    listed = _tokens(ballot.policy) - _tokens(ballot.framework)
    grown = listed * (sum(whole) / (len(whole) * len(ballot.rules)) - 1)
    answer = sum(_answer(run, rule.type, level) for rule in own) / len(own)
    most = _most_attempts(run)
    for checker in run.settings.models.checkers(level):
        asked = [question for _, question in vote_questions(run.materials, ballot, checker)]
        first, *_ = (_parts(question.prompt.messages[0]) for question in asked)
        shared = _tokens(first[0]) + grown
        each = sum(_tokens(_parts(q.prompt.messages[0])[1]) for q in asked) / len(own)
        least = calls * shared + each * sum(counts)
        more = second * shared + each * sum(again)
        given = answer * sum(counts), answer * (sum(counts) + sum(again))
        yield (
            "validators",
            asked[0],
            Need(
                (calls, (calls + second) * most * (1 + CORRECTED)),
                (least, most * ((1 + CORRECTED) * (least + more) + CORRECTED * given[1])),
                (calls - len(counts)) * shared,
                (given[0], given[1] * THINKING * most * (1 + CORRECTED)),
            ),
        )


def _stand_in(run: Run, source: SourceConversation, level: Level) -> Ballot:
    return Ballot(
        made=run.made[0],
        level=level,
        attempt=1,
        round=1,
        turns=source.turns,
        instruction=draw_instruction(run.settings, run.made[0], level),
        framework=source.policies[level].framework,
        rules=source.rules(level),
        targets=frozenset(rule.key for rule in source.policies[level].rules),
    )


def _answer(run: Run, kind: RuleType, level: Level) -> int:
    return ANSWER_TOKENS * len(run.materials.checklists[kind].at(level))


def _parts(message: Message) -> tuple[str, ...]:
    return (message.content,) if isinstance(message.content, str) else message.content


def render_estimate(run: Run, needs: dict[tuple[str, str], Need]) -> str:
    """An estimate as a table for a person; unknown prices say so."""
    rows = [["role", "model", "calls", "input tokens", "output tokens", "US dollars"]]
    totals = Need()
    low = high = 0.0
    unknown = []
    for (role, model), need in needs.items():
        totals = totals.plus(need)
        price = need.price(model)
        if price is None:
            unknown.append(model)
        else:
            low, high = low + price[0], high + price[1]
        shown = "not known" if price is None else f"{price[0]:,.2f} to {price[1]:,.2f}"
        rows.append([role, model, *_ranges(need), shown])
    rows.append(["all", "", *_ranges(totals), f"{low:,.2f} to {high:,.2f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        f"{len(run.made):,} conversations, {3 * len(run.made):,} cases",
        "",
        *(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ),
        "",
        "From a run in which all passes at once and no model thinks to one with repairs, second "
        "attempts, corrections and long thinking, at list prices.",
    ]
    if unknown:
        lines.append(
            f"No price is known for {', '.join(dict.fromkeys(unknown))}: not in the sum, and "
            "--cost-limit cannot be used."
        )
    return "\n".join(lines)


def _ranges(need: Need) -> list[str]:
    return [
        f"{round(pair[0]):,} to {ceil(pair[1]):,}"
        for pair in (need.calls, need.input_tokens, need.output_tokens)
    ]


def estimate_json(run: Run, needs: dict[tuple[str, str], Need]) -> dict[str, object]:
    """An estimate as plain values."""
    return {
        "conversations": len(run.made),
        "roles": [
            {
                "role": role,
                "model": model,
                "calls": [round(need.calls[0]), ceil(need.calls[1])],
                "input_tokens": [round(value) for value in need.input_tokens],
                "output_tokens": [round(value) for value in need.output_tokens],
                "price": need.price(model),
            }
            for (role, model), need in needs.items()
        ],
    }
