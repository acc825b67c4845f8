"""The writing stages: what each author is asked, and what of its reply can be used."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from safepyramid.construct.checklists import Checklists
from safepyramid.construct.drafts import (
    RULE_FORMS,
    ConversationForm,
    FrameworkForm,
    L2Form,
    as_drafts,
    framework_text,
)
from safepyramid.construct.draws import Assignment, draw_conversation
from safepyramid.construct.questions import Question, Templates, user_prompt
from safepyramid.construct.reading import Malformed, Reading, read_form
from safepyramid.construct.settings import Role, Settings
from safepyramid.construct.source import SourceRule, odd_mark
from safepyramid.conversation import MARK, render_conversation
from safepyramid.policy.text import mentioned_rules
from safepyramid.prompts.render import fenced
from safepyramid.schema import Level, RuleType, Turn

REPEATED = 4
"""A message of so many words does not occur twice in a conversation."""


@dataclass(frozen=True, slots=True)
class Materials:
    """What every question of a run is made from."""

    settings: Settings
    templates: Templates
    checklists: Checklists


def turns_of(form: ConversationForm) -> tuple[Turn, ...]:
    """A conversation's messages in order."""
    turns: list[Turn] = []
    for number, exchange in enumerate(form.exchanges, 1):
        turns.append(Turn(number, "user", exchange.user))
        turns.append(Turn(number, "chatbot", exchange.chatbot))
    return tuple(turns)


def conversation_question(
    materials: Materials, made: Assignment, attempt: int, reasons: Sequence[str]
) -> Question:
    """Ask for a conversation."""
    settings, scenario = materials.settings, made.scenario
    draw = draw_conversation(settings, made, attempt)

    def read(text: str) -> Reading:
        form = read_form(text, ConversationForm)
        low, high = settings.exchanges
        if not low <= len(form.exchanges) <= high:
            raise Malformed(
                f"it has {len(form.exchanges)} exchanges, {draw.exchanges} were asked for"
            )
        said: set[str] = set()
        for turn in turns_of(form):
            if mark := MARK.search(turn.text):
                raise Malformed(f"exchange {turn.number} holds {mark[0]!r} at the start of a line")
            if turn.text in said and len(turn.text.split()) >= REPEATED:
                raise Malformed(f"exchange {turn.number} repeats a message word for word")
            said.add(turn.text)
        return Reading(form.model_dump(mode="json"))

    return _question(
        materials,
        stage="conversation",
        id=f"{made.id}/{attempt}",
        role=settings.models.conversation,
        form=ConversationForm,
        read=read,
        domain=made.domain.replace("_", " "),
        title=scenario.title,
        situation=scenario.situation,
        careful=scenario.careful,
        careless=scenario.careless,
        facts="\n".join(f"- {fact}" for fact in draw.facts),
        traits="\n".join(f"- {name}: {how}" for name, how in draw.traits),
        exchanges=str(draw.exchanges),
        initials=draw.initials,
        again=_again(materials, attempt, reasons),
    )


def rules_question(
    materials: Materials,
    made: Assignment,
    level: Level,
    attempt: int,
    turns: Sequence[Turn],
    counts: Mapping[RuleType, int],
    below: Sequence[SourceRule],
    framework: str = "",
    reasons: Sequence[str] = (),
) -> Question:
    """Ask for a level's rules.

    Args:
        materials: Of the run.
        made: Which conversation.
        level: Which level.
        attempt: The how manieth time, from 1.
        turns: The conversation.
        counts: How many rules of each type.
        below: The rules of the level below; none for L0.
        framework: L2: the framework block.
        reasons: Why an earlier attempt was set aside.
    """
    extra: dict[str, str] = {}
    if level is Level.L1:
        extra["base"] = _lines(
            {"key": r.key, "type": r.type, "text": r.text, "broken": r.broken} for r in below
        )
    elif level is Level.L2:
        extra = {"framework": framework, "rules": _json(as_drafts(below))}
    return _question(
        materials,
        stage=level.lower(),
        id=f"{made.id}/{attempt}",
        role=materials.settings.models.author(level),
        form=RULE_FORMS[level],
        conversation=_conversation(turns),
        style=_style(materials),
        again=_again(materials, attempt, reasons),
        **{kind.value: str(count) for kind, count in counts.items()},
        **extra,
    )


def framework_question(
    materials: Materials,
    made: Assignment,
    attempt: int,
    turns: Sequence[Turn],
    below: Sequence[SourceRule],
    reasons: Sequence[str],
) -> Question:
    """Ask for the framework that an L2 policy will be worded in."""

    def read(text: str) -> Reading:
        form = read_form(text, FrameworkForm)
        if any(mentioned_rules(line) for line in framework_text(form).split("\n")):
            raise Malformed("the framework names rules by number; it must not know any rules")
        if mark := odd_mark(framework_text(form)):
            raise Malformed(f"the framework holds {mark!r}: brackets are for rules only")
        return Reading(form.model_dump(mode="json"))

    return _question(
        materials,
        stage="framework",
        id=f"{made.id}/{attempt}",
        role=materials.settings.models.author(Level.L2),
        form=FrameworkForm,
        read=read,
        conversation=_conversation(turns),
        rules="\n".join(f"- {rule.text}" for rule in below),
        style=_style(materials),
        again=_again(materials, attempt, reasons),
    )


def repair_question(
    materials: Materials,
    made: Assignment,
    level: Level,
    attempt: int,
    turns: Sequence[Turn],
    policy: Sequence[SourceRule],
    failed: Sequence[Mapping[str, Any]],
    framework: str = "",
) -> Question:
    """Ask a level's author to mend rules.

    Args:
        materials: Of the run.
        made: Which conversation.
        level: Whose rules.
        attempt: The attempt at the level that they belong to.
        turns: The conversation.
        policy: All rules of the policy that can be used.
        failed: The rules to mend as plain values, each with its `objections`.
        framework: L2: the framework block.
    """
    return _question(
        materials,
        stage="repair",
        id=f"{made.id}/{level}/{attempt}",
        role=materials.settings.models.author(level),
        form=L2Form,
        conversation=_conversation(turns),
        framework=f"\nThe framework of the policy:\n\n{framework}\n" if framework else "",
        policy=_json(as_drafts(policy)),
        failed=_lines(failed),
        style=_style(materials),
    )


def _question(
    materials: Materials,
    *,
    stage: str,
    id: str,
    role: Role,
    form: type[BaseModel],
    read: Any = None,
    **values: str,
) -> Question:
    templates = materials.templates

    def read_whole(text: str) -> Reading:
        return Reading(read_form(text, form).model_dump(mode="json"))

    return Question(
        stage=stage,
        id=id,
        role=role,
        prompt=user_prompt(templates.fill(stage, **values)),
        templates=templates.hash(stage, "again", "style"),
        form=form,
        read=read or read_whole,
        correction=templates["correction"],
    )


def _conversation(turns: Sequence[Turn]) -> str:
    return fenced("conversation", render_conversation(turns))


def _style(materials: Materials) -> str:
    style = materials.settings.style.strip()
    return "\n" + materials.templates.fill("style", style=style) if style else ""


def _again(materials: Materials, attempt: int, reasons: Sequence[str]) -> str:
    if attempt == 1:
        return ""
    told = "\n".join(f"- {reason}" for reason in reasons)
    return "\n" + materials.templates.fill("again", attempt=str(attempt), reasons=told) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _lines(values: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values)
