"""How a conversation becomes a pyramid: asking, checking, repairing, dropping, and giving up.

Nothing is called here. The same code makes a run (its `ask` calls models and remembers) and
reads one (its `ask` only remembers), so that what a run folder holds and what a release is made
of cannot differ. All that is decided follows from settings and replies, never from timing.
"""

from collections.abc import Callable, Mapping, Sequence

import anyio

from safepyramid.construct.author import (
    conversation_question,
    framework_question,
    rules_question,
    turns_of,
)
from safepyramid.construct.checking import check
from safepyramid.construct.drafts import (
    RULE_FORMS,
    ConversationForm,
    FrameworkForm,
    framework_text,
    sort_drafts,
)
from safepyramid.construct.draws import Assignment, draw_counts, draw_instruction, draw_note
from safepyramid.construct.duplicates import shingles, similarity
from safepyramid.construct.settle import Settled, shape_problems, violated_keys
from safepyramid.construct.source import SourceConversation, SourcePolicy, SourceRule
from safepyramid.construct.votes import Ballot
from safepyramid.construct.work import STEPS, Outcome, SetAside, Setback, Stopped, Work, answer
from safepyramid.conversation import render_conversation
from safepyramid.schema import Level, Turn


class Siblings:
    """The conversations of each scenario, which must not repeat one another.

    One is compared with those of lower number, and waits until it is known what became of them.
    """

    def __init__(self, all_made: Sequence[Assignment], threshold: float) -> None:
        self._threshold = threshold
        self._known = {made.id: anyio.Event() for made in all_made}
        self._texts: dict[str, frozenset[int]] = {}
        self._elder: dict[str, list[str]] = {}
        by_scenario: dict[str, list[str]] = {}
        for made in sorted(all_made, key=lambda made: made.order):
            before = by_scenario.setdefault(made.scenario.id, [])
            self._elder[made.id] = list(before)
            before.append(made.id)

    async def twin(self, made: Assignment, text: str) -> str:
        """The id of an earlier conversation that this one repeats; empty if it does not."""
        own = shingles(text)
        for elder in self._elder[made.id]:
            await self._known[elder].wait()
            if similarity(own, self._texts.get(elder, frozenset())) >= self._threshold:
                return elder
        self._texts[made.id] = own
        return ""

    def settled(self, made: Assignment) -> None:
        """Let the later ones go on: this one has its text, or will have none."""
        self._known[made.id].set()


async def make_pyramid(work: Work, siblings: Siblings) -> Outcome:
    """Take one conversation as far as it goes."""
    settled: dict[Level, Settled] = {}
    try:
        try:
            title, turns = await _conversation(work, siblings)
        finally:
            siblings.settled(work.made)
        below: tuple[SourceRule, ...] = ()
        for level in Level:
            if STEPS.index(level) > STEPS.index(work.last):
                raise Stopped("open", level, "not begun")
            settled[level] = await _level(work, level, turns, below)
            below = (*below, *settled[level].rules)
    except Stopped as stop:
        return work.outcome(stop.standing, stop.step, stop.reason)
    return work.outcome(
        "complete",
        STEPS[-1],
        source=_source(work, title, turns, settled),
        votes={level: found.votes for level, found in settled.items()},
    )


async def _conversation(work: Work, siblings: Siblings) -> tuple[str, tuple[Turn, ...]]:
    reason = ""
    for attempt in range(1, work.materials.settings.attempts + 1):
        question = conversation_question(work.materials, work.made, attempt, (reason,))
        try:
            form = await answer(work, STEPS[0], question, ConversationForm)
        except SetAside as aside:
            reason = str(aside)
        else:
            turns = turns_of(form)
            twin = await siblings.twin(work.made, render_conversation(turns))
            if not twin:
                return form.title, turns
            reason = f"nearly the same as {twin}"
        work.setbacks.append(Setback(STEPS[0], attempt, reason))
    raise Stopped("failed", STEPS[0], reason)


async def _level(
    work: Work, level: Level, turns: Sequence[Turn], below: tuple[SourceRule, ...]
) -> Settled:
    """Make a level's rules, again where what is left of them has not the level's shape."""
    inherited = below if level is Level.L1 else ()
    reasons: list[str] = []
    for attempt in range(1, work.materials.settings.attempts + 1):
        try:
            settled = await _attempt(work, level, attempt, turns, below, reasons)
        except SetAside as aside:
            reasons = [str(aside)]
        else:
            shape = work.materials.settings.levels.of(level)
            reasons = shape_problems((*inherited, *settled.rules), shape)
            if not reasons:
                return settled
        work.setbacks.append(Setback(level, attempt, "; ".join(reasons)))
    raise Stopped("failed", level, "; ".join(reasons))


async def _attempt(
    work: Work,
    level: Level,
    attempt: int,
    turns: Sequence[Turn],
    below: tuple[SourceRule, ...],
    reasons: Sequence[str],
) -> Settled:
    materials, made = work.materials, work.made
    inherited = below if level is Level.L1 else ()
    counts = draw_counts(materials.settings, made, level, len(inherited))
    framework = ""
    if level is Level.L2:
        asked = framework_question(materials, made, attempt, turns, below, reasons)
        framework = framework_text(await answer(work, level, asked, FrameworkForm))
    question = rules_question(
        materials, made, level, attempt, turns, counts, below, framework, reasons
    )
    form = await answer(work, level, question, RULE_FORMS[level])
    drafts = sort_drafts(form, turns, inherited, _noted(work, level), counts)
    ballot = Ballot(
        made=made,
        level=level,
        attempt=attempt,
        round=1,
        turns=turns,
        instruction=draw_instruction(materials.settings, made, level),
        framework=framework,
        rules=(*inherited, *drafts.usable),
        targets=frozenset(rule.key for rule in drafts.usable),
    )
    return await check(work, ballot, inherited, drafts)


def _noted(work: Work, level: Level) -> Callable[[str], bool]:
    return lambda key: draw_note(work.materials.settings, work.made, level, key)


def _source(
    work: Work, title: str, turns: tuple[Turn, ...], settled: Mapping[Level, Settled]
) -> SourceConversation:
    """The finished pyramid in the source form, with the majority's labels."""
    settings, made = work.materials.settings, work.made
    policies = {}
    for level, found in settled.items():
        inherited = settled[Level.L0].rules if level is Level.L1 else ()
        policies[level] = SourcePolicy(
            inherits=Level.L0 if level is Level.L1 else None,
            instruction=draw_instruction(settings, made, level),
            framework=found.framework,
            rules=found.rules,
            violated=violated_keys((*inherited, *found.rules)),
        )
    return SourceConversation(
        id=made.id,
        domain=made.domain,
        scenario=made.scenario.id,
        title=title,
        turns=turns,
        policies=policies,
    )
