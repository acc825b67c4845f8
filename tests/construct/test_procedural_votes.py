"""Procedural rules are put to the vote like written ones, and pass every check.

The validator here reads prompt and reply form like any other. Its answers are computed: labels from
what the formulas come to, everything else from the texts.
"""

import json
import re

import pytest

from safepyramid.construct.author import Materials
from safepyramid.construct.checklists import NOT_ASKED, judge, load_checklists
from safepyramid.construct.draws import Assignment
from safepyramid.construct.procedural import Knobs, author
from safepyramid.construct.procedural_rules import FORBIDDING, FORMS
from safepyramid.construct.questions import Templates
from safepyramid.construct.records import Record
from safepyramid.construct.scenarios import load_scenarios
from safepyramid.construct.settings import Settings
from safepyramid.construct.votes import Ballot, vote_questions, votes_on
from safepyramid.policy.parse import lint_policy, parse_policy
from safepyramid.policy.text import mentioned_rules
from safepyramid.schema import Level, RuleType

MATERIALS = Materials(Settings(), Templates(), load_checklists())


def ballot_of(source, level):
    rules = source.rules(level)
    return Ballot(
        made=Assignment(source.id, source.domain, load_scenarios()[0], 0),
        level=level,
        attempt=1,
        round=1,
        turns=source.turns,
        instruction=source.policies[level].instruction,
        framework=source.policies[level].framework,
        rules=rules,
        targets=frozenset(rule.key for rule in rules),
    )


def place(rule):
    """Form of a base rule, and what it is about: `full` and `any` are about the same."""
    names = sorted((form.replace("_", "-") for form in FORMS), key=len, reverse=True)
    form = next(name for name in names if rule.key.startswith(f"{name}-"))
    about = rule.key.removeprefix(f"{form}-")
    return form.replace("-", "_"), re.sub("^any-", "full-", about)


def conditions(rule):
    return frozenset(re.split(r"\([a-e]\) ", rule.text.split("[[")[0])[1:])


def covers(other, rule):
    """Whether one rule asks for all that another does, wherever that one applies."""
    if other.key == rule.key or other.type.is_modifier != rule.type.is_modifier:
        return False
    if rule.type.is_modifier:
        same = (other.type, other.modifies) == (rule.type, rule.modifies)
        standards = [r.text.rsplit("chatbot", 1)[-1] for r in (other, rule)]
        return same and conditions(other) <= conditions(rule) and standards[0] == standards[1]
    (form, about), (mine, what) = place(other), place(rule)
    return about == what and (form == mine or {form, mine} <= FORBIDDING)


class Perfect:
    """Answers each question about a rule of one policy."""

    def __init__(self, ballot):
        self.ballot = ballot
        self.said = {(turn.number, turn.role): turn.text for turn in ballot.turns}
        policy = parse_policy(ballot.policy, ballot.framework)
        self.shown = {rule.number: rule.text for rule in policy.rules}
        self.findings = "\n".join(f for f in lint_policy(policy) if "nearly the same" not in f)
        bases = [rule for rule in ballot.rules if not rule.type.is_modifier]
        # `reply-full-lemaft-the-spring` is about the third word of it
        self.terms = {word for rule in bases for word in place(rule)[1].split("-")[1:]} - {"the"}

    def says(self, question, rule):
        number = self.ballot.numbered.number_of[rule.key]
        text = self.shown[number]
        named = {self.ballot.numbered.number_of[key] for key in rule.modifies}
        unclear = re.search(rf"\b[Rr]ule {number}\b", self.findings) is not None
        answers = {
            "observable": all(q.text in self.said[q.turn, q.role] for q in rule.quotes),
            "engaged": not rule.reason.endswith("does not come up."),
            "two_readings": unclear,
            "two_duties": len(re.findall(r"\b(?:must|may not)\b", text)) > 1
            and "must not end before" not in text
            and "must be met by" not in text,
            "covered_elsewhere": any(covers(other, rule) for other in self.ballot.rules),
            "several_conditions": len(conditions(rule)) > 1,
            "names_its_rules": set(mentioned_rules(text)) == named,
            "own_standard": re.search(r"(?i)\bin(?:stead| its place| place of)\b.* must ", text),
            "stricter": re.search(r"\brequires (?:in addition )?that\b", text),
            "without_framework": not self.terms & set(re.findall(r"\w+", re.sub(r"s\b", "", text))),
            "broken": rule.broken,
            "triggered": rule.triggered,
            "met": rule.met,
        }
        if question.when and not answers[question.when]:
            return NOT_ASKED
        return "yes" if answers[question.id] else "no"

    def reply(self, asked):
        rules = {rule.key: rule for rule in self.ballot.rules}
        return json.dumps(
            {
                "rules": [
                    {
                        "rule": self.ballot.numbered.number_of[key],
                        "answers": [
                            {
                                "question": question.id,
                                "answer": self.says(question, rules[key]),
                                "quote": rules[key].quotes[0].model_dump(),
                                "reason": rules[key].reason,
                            }
                            for question in questions
                        ],
                    }
                    for key, questions in asked.items()
                ]
            }
        )


def voted(ballot, change=lambda name, reply: reply):
    """Each rule's votes, through the pipeline's own questions and readers."""
    perfect, found = Perfect(ballot), {rule.key: [] for rule in ballot.rules}
    for role in MATERIALS.settings.models.checkers(ballot.level):
        for asked, question in vote_questions(MATERIALS, ballot, role):
            reading = question.read(change(role.model, perfect.reply(asked)))
            record = Record(
                "vote", question.id, "done", role.model, "", question.asked,
                output=reading.output, faults=reading.faults,
            )  # fmt: skip
            for key, vote in votes_on(asked, role.model, record).items():
                found[key].append(vote)
    return found


def verdicts(ballot, votes):
    kinds = {rule.key: rule.type for rule in ballot.rules}
    return {
        key: judge(MATERIALS.checklists[kinds[key]].at(ballot.level), found, quorum=2)
        for key, found in votes.items()
    }


@pytest.mark.parametrize("knobs", [{}, {"depth": 4}], ids=["defaults", "deep"])
def test_a_perfect_validator_keeps_every_rule_with_its_label(knobs):
    for source in author(Knobs(conversations=5, seed=3, **knobs)):
        for level in Level:
            ballot = ballot_of(source, level)
            votes = voted(ballot)
            assert not [vote for found in votes.values() for vote in found if vote.unreadable]
            for rule, verdict in zip(ballot.rules, verdicts(ballot, votes).values(), strict=True):
                assert verdict.state == "kept", (source.id, level, rule.key, verdict.reasons)
                labels = {"broken": rule.broken, "triggered": rule.triggered, "met": rule.met}
                assert verdict.labels == {k: v for k, v in labels.items() if v is not None}


def test_one_who_takes_distractors_for_decisive_rules_loses_them_all():
    (source,) = author(Knobs(conversations=1, seed=3))

    def hasty(name, reply):
        said = json.loads(reply)
        for rule in said["rules"]:
            for given in rule["answers"]:
                if given["question"] == "engaged":
                    given["answer"] = "yes"
        return json.dumps(said)

    ballot = ballot_of(source, Level.L0)
    found = verdicts(ballot, voted(ballot, hasty))
    for rule in ballot.rules:
        expected = "failed" if rule.type is RuleType.DISTRACTOR else "kept"
        assert found[rule.key].state == expected
