"""The checking stage: what validators are shown and asked, and how their votes are read.

Validators see the policy as a guard will see it, shuffled and numbered, and neither the types of
the rules nor what their author thought. Conversation and policy stand between tags that they
cannot close, and a vote that rests on words that nobody said is not counted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from safepyramid.construct.assemble import Numbered, numbered_rules
from safepyramid.construct.author import Materials
from safepyramid.construct.checklists import NOT_ASKED, CheckQuestion, Given, Vote
from safepyramid.construct.drafts import AnswerForm, CitedQuote, RuleVoteForm, VotesForm
from safepyramid.construct.draws import Assignment
from safepyramid.construct.questions import Question, user_prompt
from safepyramid.construct.reading import Reading, read_form
from safepyramid.construct.records import Record, changed
from safepyramid.construct.settings import Role
from safepyramid.construct.source import SourceRule
from safepyramid.conversation import render_conversation
from safepyramid.policy.parse import render_policy
from safepyramid.prompts.render import fenced
from safepyramid.schema import Level, Turn

MIN_QUOTE = 8
"""Fewest characters of a quote, unless the message is shorter: a word or two occur anywhere."""

_BY_NUMBER = re.compile(r"\b([Rr]ule)\s+(\d{1,3})\b")


class _Stored(BaseModel):
    """An answer as a record holds it."""

    model_config = ConfigDict(extra="forbid")

    answer: Literal["yes", "no", "does_not_apply"]
    quote: CitedQuote
    reason: str


_STORED = TypeAdapter(dict[str, dict[str, _Stored]])


@dataclass(frozen=True)
class Ballot:
    """A policy as it is put to the vote."""

    made: Assignment
    level: Level
    attempt: int
    round: int
    """1, and 2 after repairs."""
    turns: Sequence[Turn]
    instruction: str
    framework: str
    rules: tuple[SourceRule, ...]
    """The whole policy."""
    targets: frozenset[str]
    """The keys that are voted on."""

    @cached_property
    def numbered(self) -> Numbered:
        """The rules as the policy shows them."""
        return numbered_rules(self.rules, f"{self.made.id}-{self.level.lower()}")

    @cached_property
    def policy(self) -> str:
        """The policy text."""
        return render_policy(self.instruction, self.framework, self.numbered.shown)


def vote_questions(
    materials: Materials, ballot: Ballot, validator: Role
) -> Iterator[tuple[Mapping[str, tuple[CheckQuestion, ...]], Question]]:
    """What one validator is asked: some rules with the questions about each, and the call.

    Rules go out by number, so that their order tells nothing of their types.
    """
    number_of = ballot.numbered.number_of
    keys = sorted(ballot.targets, key=lambda key: number_of[key])
    size = materials.settings.rules_per_call
    for part, start in enumerate(range(0, len(keys), size), 1):
        asked = {key: _asked(materials, ballot, key) for key in keys[start : start + size]}
        yield asked, _question(materials, ballot, validator, part, asked)


def _question(
    materials: Materials,
    ballot: Ballot,
    validator: Role,
    part: int,
    asked: Mapping[str, tuple[CheckQuestion, ...]],
) -> Question:
    templates, numbered = materials.templates, ballot.numbered
    key_of = {number: key for key, number in numbered.number_of.items()}
    policy = ballot.policy

    def read(text: str) -> Reading:
        form = read_form(text, VotesForm)
        return _read_votes(form, ballot, policy, asked, key_of)

    return Question(
        stage="vote",
        id=f"{ballot.made.id}/{ballot.level}/{ballot.attempt}/{ballot.round}/{validator.model}/{part}",
        role=validator,
        prompt=user_prompt(
            templates.fill(
                "validate-shared",
                policy=fenced("policy", policy),
                conversation=fenced("conversation", render_conversation(ballot.turns)),
            ),
            "\n\n" + templates.fill("validate-rules", targets=_targets(numbered, asked)),
        ),
        templates=templates.hash("validate-shared", "validate-rules"),
        form=VotesForm,
        read=read,
        correction=templates["correction"],
    )


def _asked(materials: Materials, ballot: Ballot, key: str) -> tuple[CheckQuestion, ...]:
    kind = next(rule.type for rule in ballot.rules if rule.key == key)
    return materials.checklists[kind].at(ballot.level)


def _targets(numbered: Numbered, asked: Mapping[str, tuple[CheckQuestion, ...]]) -> str:
    """The rules with their questions; rules that are asked the same share one list."""
    text_of = {rule.number: rule.text for rule in numbered.shown}
    lists: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for key, questions in asked.items():
        number = numbered.number_of[key]
        lists.setdefault(tuple((q.id, q.ask) for q in questions), []).append(
            f"Rule {number}: {text_of[number]}"
        )
    return "\n\n".join(
        "\n".join(
            [*rules, "Questions about each of these:", *(f"- {id}: {ask}" for id, ask in questions)]
        )
        for questions, rules in lists.items()
    )


def _read_votes(
    form: VotesForm,
    ballot: Ballot,
    policy: str,
    asked: Mapping[str, tuple[CheckQuestion, ...]],
    key_of: Mapping[int, str],
) -> Reading:
    """Votes by rule key; a rule whose answers are not whole, or rest on nothing, is a fault."""
    said: dict[tuple[int, str], str] = {(t.number, t.role): t.text for t in ballot.turns}
    said[0, "policy"] = policy
    number_of = ballot.numbered.number_of
    output: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for key, questions in asked.items():
        given = [vote for vote in form.rules if vote.rule == number_of[key]]
        fault = _fault(given[0], questions, said) if len(given) == 1 else ""
        if len(given) != 1:
            fault = "answered more than once" if given else "no answers"
        if fault:
            faults[key] = f"rule {number_of[key]}: {fault}"
        else:
            output[key] = _kept(given[0], key_of)
    return Reading(output, faults)


def _kept(vote: RuleVoteForm, key_of: Mapping[int, str]) -> dict[str, Any]:
    return {
        given.question: {
            "answer": given.answer,
            "quote": given.quote.model_dump(),
            "reason": _BY_NUMBER.sub(lambda match: _by_key(match, key_of), given.reason),
        }
        for given in vote.answers
    }


def _by_key(match: re.Match[str], key_of: Mapping[int, str]) -> str:
    """Numbers change when rules are dropped; keys do not."""
    key = key_of.get(int(match[2]))
    return f"[[{key}]]" if key else match[0]


def _fault(
    vote: RuleVoteForm, asked: Sequence[CheckQuestion], said: Mapping[tuple[int, str], str]
) -> str:
    """Why a set of answers cannot be counted; empty if it can."""
    ids = [given.question for given in vote.answers]
    if doubled := {id for id in ids if ids.count(id) > 1}:
        return f"{', '.join(sorted(doubled))}: answered twice"
    if lacking := [question.id for question in asked if question.id not in ids]:
        return f"{', '.join(lacking)}: not answered"
    if unknown := set(ids) - {question.id for question in asked}:
        return f"{', '.join(sorted(unknown))}: not asked"
    by_id = {given.question: given for given in vote.answers}
    faults = (_answer_fault(question, by_id, said) for question in asked)
    return next((fault for fault in faults if fault), "")


def _answer_fault(
    question: CheckQuestion,
    by_id: Mapping[str, AnswerForm],
    said: Mapping[tuple[int, str], str],
) -> str:
    given = by_id[question.id]
    quote = given.quote
    if given.answer == NOT_ASKED and question.when is None:
        return f"{question.id}: must be answered with yes or no"
    if given.answer == NOT_ASKED and by_id[question.when or question.id].answer == "yes":
        return f"{question.id}: must be answered with yes or no, since {question.when} is yes"
    if question.cite == "conversation" and quote.role == "policy":
        return f"{question.id}: the quote must come from the conversation"
    where = "the policy" if quote.role == "policy" else f"turn {quote.turn} of the {quote.role}"
    whole = said.get((0 if quote.role == "policy" else quote.turn, quote.role), "")
    if quote.text not in whole:
        return f"{question.id}: {where} does not say {quote.text[:80]!r}"
    if len(quote.text) < min(MIN_QUOTE, len(whole)):
        return f"{question.id}: {quote.text!r} is too short a quote to rest on"
    return ""


def votes_on(
    asked: Mapping[str, Sequence[CheckQuestion]], validator: str, record: Record | None
) -> dict[str, Vote]:
    """One validator's votes, by rule key, as a record holds them.

    A record that is not there or could not be read gives unreadable votes with the reason.

    Args:
        asked: Key of each rule -> the questions about it.
        validator: Whose votes they are.
        record: Its answer.

    Raises:
        RunError: What the record holds is not what was asked: it was changed by hand.
    """
    if record is None or record.state != "done" or record.output is None:
        why = "not asked" if record is None else f"{record.state}: {record.reason}"
        return {key: Vote(validator, {}, why) for key in asked}
    try:
        _STORED.validate_python(record.output)
    except ValidationError:
        raise changed(record) from None
    votes = {}
    for key, questions in asked.items():
        given = record.output.get(key)
        if given is None:
            votes[key] = Vote(validator, {}, record.faults.get(key, "no answers about this rule"))
        elif set(given) != {question.id for question in questions}:
            raise changed(record)
        else:
            votes[key] = Vote(validator, {id: _given(answer) for id, answer in given.items()})
    return votes


def _given(answer: Mapping[str, Any]) -> Given:
    said = {"yes": True, "no": False}.get(answer["answer"])
    return Given(said, answer["quote"], answer["reason"])
