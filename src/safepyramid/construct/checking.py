"""A level's drafts on their way: a vote, one repair of what fails, a second vote, the rest drops."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from safepyramid.construct.author import repair_question
from safepyramid.construct.checklists import RuleVerdict, Vote, judge
from safepyramid.construct.decisions import Subject, rule_content
from safepyramid.construct.drafts import Drafts, L2Form, drafted, sort_drafts
from safepyramid.construct.draws import draw_note
from safepyramid.construct.records import Record
from safepyramid.construct.settle import Drop, DropStage, Rated, Settled, labeled, without_base
from safepyramid.construct.source import SourceRule
from safepyramid.construct.votes import Ballot, vote_questions, votes_on
from safepyramid.construct.work import SetAside, Stopped, Work, answer, require_answer
from safepyramid.conversation import render_conversation
from safepyramid.schema import RuleType

Votes = dict[str, tuple[Vote, ...]]


@dataclass(frozen=True, slots=True)
class _Failure:
    """A rule that needs mending."""

    type: RuleType
    shown: Mapping[str, Any]
    """As its author wrote it, for the author."""
    stage: DropStage
    objections: tuple[str, ...]
    checks: tuple[str, ...] = ()


async def check(
    work: Work, ballot: Ballot, inherited: Sequence[SourceRule], drafts: Drafts
) -> Settled:
    """Put a level's rules to the vote and keep those that pass.

    Args:
        work: The conversation.
        ballot: The first vote.
        inherited: Rules of the policy that were decided before.
        drafts: What the author wrote.
    """
    _count(work, ballot, drafts)
    first = await _vote(work, ballot)
    verdicts = _judged(work, ballot, first)
    failures = _failures(ballot, drafts, verdicts)
    own = [rule for rule in ballot.rules if rule.key in ballot.targets and rule.key not in failures]
    repaired, why = await _repaired(work, ballot, [*inherited, *own], failures)
    mended = {rule.key for rule in repaired}
    for key, failure in failures.items():
        if key not in mended:
            _drop_failure(work, ballot, key, failure, why)
    own = _with_bases(work, ballot, [*own, *repaired], inherited)
    second = replace(
        ballot,
        round=2,
        rules=(*inherited, *own),
        # What acts on a mended rule was judged by other words: it is voted on again.
        targets=frozenset(r.key for r in own if r.key in mended or mended & set(r.modifies)),
    )
    votes = {**first, **await _vote(work, second)}
    kept = _decided(work, second, own, votes, verdicts | _judged(work, second, votes))
    kept = _with_bases(work, ballot, kept, inherited)
    kinds = {rule.key: rule.type for rule in (*ballot.rules, *second.rules)}
    stayed = {rule.key for rule in kept}
    work.rated += [
        Rated(ballot.level, kinds[key], key, found, key in stayed) for key, found in votes.items()
    ]
    return Settled(tuple(kept), {rule.key: votes[rule.key] for rule in kept}, ballot.framework)


def _count(work: Work, ballot: Ballot, drafts: Drafts) -> None:
    for rule in drafts.usable:
        work.drafted[ballot.level, rule.type] += 1
    for kind, _, _ in drafts.faulty.values():
        work.drafted[ballot.level, kind] += 1
    for key, kind in drafts.surplus:
        work.drafted[ballot.level, kind] += 1
        reason = "more than was asked for, or a key that is taken"
        work.drops.append(Drop(ballot.level, ballot.attempt, key, kind, "draft", reason))


async def _vote(work: Work, ballot: Ballot) -> Votes:
    """Ask every validator about every target, all at once."""
    settings = work.materials.settings
    asked = [
        (role, rules, question)
        for role in settings.models.checkers(ballot.level)
        for rules, question in vote_questions(work.materials, ballot, role)
    ]
    records: dict[str, Record | None] = {}

    async def ask(index: int) -> None:
        question = asked[index][2]
        records[question.id] = await work.ask(question)

    async with anyio.create_task_group() as group:
        for index in range(len(asked)):
            group.start_soon(ask, index)
    votes: dict[str, list[Vote]] = {key: [] for key in sorted(ballot.targets)}
    for role, rules, question in asked:
        record = records[question.id]
        require_answer(ballot.level, record)
        for key, vote in votes_on(rules, role.model, record).items():
            votes[key].append(vote)
    return {key: tuple(found) for key, found in votes.items()}


def _judged(
    work: Work, ballot: Ballot, votes: Mapping[str, Sequence[Vote]]
) -> dict[str, RuleVerdict]:
    quorum = work.materials.settings.quorum_of(ballot.level)
    checklists = work.materials.checklists
    return {
        rule.key: judge(checklists[rule.type].at(ballot.level), votes[rule.key], quorum)
        for rule in ballot.rules
        if rule.key in ballot.targets
    }


def _failures(
    ballot: Ballot, drafts: Drafts, verdicts: Mapping[str, RuleVerdict]
) -> dict[str, _Failure]:
    failures = {
        key: _Failure(kind, draft.model_dump(mode="json", exclude={"quotes"}), "draft", (fault,))
        for key, (kind, draft, fault) in drafts.faulty.items()
    }
    for rule in ballot.rules:
        verdict = verdicts.get(rule.key)
        if verdict is not None and verdict.state == "failed":
            shown = rule.model_dump(
                mode="json", include={"key", "text", "modifies", "broken", "triggered", "met"}
            )
            failures[rule.key] = _Failure(
                rule.type, shown, "check", verdict.reasons, verdict.failed_checks
            )
    return failures


async def _repaired(
    work: Work,
    ballot: Ballot,
    good: Sequence[SourceRule],
    failures: Mapping[str, _Failure],
) -> tuple[list[SourceRule], str]:
    """The mended rules that can be voted on, and why there are no others."""
    if not failures:
        return [], ""
    question = repair_question(
        work.materials,
        work.made,
        ballot.level,
        ballot.attempt,
        ballot.turns,
        good,
        [
            {"type": failure.type.value, **failure.shown, "objections": list(failure.objections)}
            for failure in failures.values()
        ],
        ballot.framework,
    )
    try:
        form = await answer(work, ballot.level, question, L2Form)
    except SetAside as aside:
        return [], f"not mended: {aside}"
    mine: dict[str, list[Any]] = {kind.value: [] for kind in RuleType}
    for kind, draft in drafted(form):
        if draft.key in failures and failures[draft.key].type is kind:
            mine[kind.value].append(draft)
    drafts = sort_drafts(
        L2Form.model_validate(mine),
        ballot.turns,
        good,
        lambda key: draw_note(work.materials.settings, work.made, ballot.level, key),
        Counter(failure.type for failure in failures.values()),
    )
    return list(drafts.usable), "not mended"


def _drop_failure(work: Work, ballot: Ballot, key: str, failure: _Failure, why: str) -> None:
    reason = "; ".join([*failure.objections, why])
    work.drops.append(
        Drop(ballot.level, ballot.attempt, key, failure.type, failure.stage, reason, failure.checks)
    )


def _with_bases(
    work: Work, ballot: Ballot, rules: Sequence[SourceRule], inherited: Sequence[SourceRule]
) -> list[SourceRule]:
    """The rules without the modifiers whose base is gone."""
    stay, go = without_base(rules, inherited)
    for rule, lacking in go:
        _drop(work, ballot, rule, "base", f"acts on {lacking}, which was dropped")
    return stay


def _drop(
    work: Work,
    ballot: Ballot,
    rule: SourceRule,
    stage: DropStage,
    reason: str,
    checks: tuple[str, ...] = (),
) -> None:
    work.drops.append(
        Drop(ballot.level, ballot.attempt, rule.key, rule.type, stage, reason, checks)
    )


def _decided(
    work: Work,
    ballot: Ballot,
    rules: Sequence[SourceRule],
    votes: Mapping[str, Sequence[Vote]],
    verdicts: Mapping[str, RuleVerdict],
) -> list[SourceRule]:
    """The rules that stay, with their labels.

    Raises:
        Stopped: A person must decide about some of them first.
    """
    kept: list[SourceRule] = []
    waiting: list[Subject] = []
    for rule in rules:
        verdict = verdicts[rule.key]
        why = "; ".join(verdict.reasons)
        if verdict.state == "kept":
            kept.append(labeled(rule, verdict.labels, votes[rule.key]))
        elif verdict.state == "failed":
            _drop(work, ballot, rule, "repair", why, verdict.failed_checks)
        else:
            subject = Subject(
                conversation=work.made.id,
                level=ballot.level,
                key=rule.key,
                content=rule_content(rule, ballot.turns, ballot.framework),
                why=why,
                rule=rule,
                votes=tuple(votes[rule.key]),
                policy=ballot.policy,
                text=render_conversation(ballot.turns),
            )
            said = work.decisions.on_rule(subject, rule)
            if said is None and work.materials.settings.undecided == "review":
                waiting.append(subject)
            elif said is None or said == "drop":
                by = "no majority" if said is None else "dropped by a person"
                _drop(work, ballot, rule, "review", f"{by}: {why}")
            else:
                kept.append(labeled(rule, said, votes[rule.key]))
    if waiting:
        work.waiting.extend(waiting)
        listed = ", ".join(subject.key for subject in waiting)
        raise Stopped("review", ballot.level, f"rules without a majority: {listed}")
    return kept
