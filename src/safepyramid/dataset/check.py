"""What is wrong with the cases of a benchmark: every contradiction within and between them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safepyramid.conversation import MARK, parse_conversation
from safepyramid.dataset.load import data_hash, read_benchmark
from safepyramid.dataset.rows import Problem, Readings, listed_problems
from safepyramid.errors import DataError
from safepyramid.policy.parse import parse_policy
from safepyramid.policy.text import take_notes
from safepyramid.schema import Case, Level, Policy, RubricEntry, RuleType, conversation_of
from safepyramid.terminal import one_line

__all__ = ["Problem", "check_cases", "check_file", "render_problems", "require_clean"]

_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair: no character, and not to be written as UTF-8."""

_PUBLISHED_ID = re.compile(r"([a-z][a-z0-9_]{3})-\d{3,}-(l[012])", re.IGNORECASE)


def check_file(
    dataset: str | Path, revision: str | None = None
) -> tuple[dict[str, Any], Readings, list[Problem]]:
    """Load a benchmark file and report everything that is wrong with it.

    Args:
        dataset: As for `load_benchmark`.
        revision: As for `load_benchmark`.

    Returns:
        The metadata and the rows, as `read_benchmark` has them; the faults of rows that are no
        cases, followed by what `check_cases` says of the others.

    Raises:
        DataError: The file cannot be had or parsed, or is empty.
    """
    metadata, found = read_benchmark(dataset, revision=revision)
    return metadata, found, [*found.faults, *check_cases(found.cases, found.unread)]


def check_cases(cases: Iterable[Case], unread: Sequence[str] = ()) -> list[Problem]:
    """Report everything that contradicts the form of a benchmark.

    Within a case: id against domain and level (ids of the published form), ground truth against
    policy, rubric and rule types, rubric against policy (numbers and texts), pairings, framework
    against level and policy, failure modes against rubric, rules that the policy names and does
    not have, numbers other than 1 to N, conversations without turns, halves of surrogate pairs in
    id, conversation or policy. Between cases: ids that are
    the same but for letter case, and conversations that lack a level, have one twice or differ
    between levels. Levels are expected to be complete unless all cases are of one level.

    Args:
        cases: As loaded, all of a file: what is filtered out counts as missing.
        unread: Ids of the file's further cases, which could not be read. They do not count as
            missing, and are compared with the other ids.

    Returns:
        All problems: those within cases by case, then those between them. Empty for sound data.
    """
    cases = list(cases)
    return [
        Problem(case.id, field, message)
        for case in cases
        for check in _CHECKS
        for field, message in check(case)
    ] + [*_ids([*(case.id for case in cases), *unread]), *_pyramids(cases, unread)]


def require_clean(cases: Iterable[Case]) -> None:
    """Refuse cases that no run should be paid for, because their scores would mean nothing.

    These are: ids that are the same but for letter case or that hold half of a surrogate pair,
    empty conversations, policies without rules, ground truths that name rules the policy lacks,
    and rubrics whose rules are not those of the policy. What else `check_cases` reports does not
    stand in the way of a run. Cases of a filtered file are fine.

    Raises:
        DataError: Lists such problems, up to 20, and says how many there are.
    """
    cases = list(cases)
    problems = [
        *_ids([case.id for case in cases]),
        *(Problem(case.id, *found) for case in cases for found in _unusable(case)),
    ]
    if problems:
        listed = listed_problems(problems)
        raise DataError(f"the data cannot be run: {listed}; see `safepyramid validate`")


def render_problems(
    problems: Sequence[Problem],
    metadata: Mapping[str, Any],
    cases: Sequence[Case],
    unread: Sequence[str] = (),
) -> str:
    """What a check found, as plain text: a summary with the data's identity, then a line each.

    Args:
        problems: As `check_cases` or `check_file` returns them.
        metadata: As `load_benchmark` returns it.
        cases: The cases that were checked.
        unread: The ids of those that could not be read. With any, the data has no hash.
    """
    origin = metadata.get("safepyramid", {})
    bad = {problem.case_id for problem in problems}
    sound = sum(case.id not in bad for case in cases)
    lines = [
        f"{origin.get('source', 'data')}: {sound:,} of {len(cases) + len(unread):,} cases "
        f"without problems, "
        f"{len(problems):,} problem{'s' if len(problems) != 1 else ''}",
        *(f"{key}: {origin[key]}" for key in ("revision", "sha256", "warning") if origin.get(key)),
        f"data hash: none, {len(unread):,} cases cannot be read"
        if unread
        else f"data hash: {data_hash(cases)}",
        *(": ".join(filter(None, problem)) for problem in problems),
    ]
    return "\n".join(map(one_line, lines))


Findings = Iterator[tuple[str, str]]


def _id_form(case: Case) -> Findings:
    match = _PUBLISHED_ID.fullmatch(case.id)
    if match and match[1].lower() != case.domain[:4].lower():
        yield "id", f"begins with {match[1]!r}, but the domain is {case.domain!r}"
    if match and match[2].upper() != case.level:
        yield "id", f"ends with {match[2]!r}, but the level is {case.level}"


def _half_pairs(case: Case, fields: Sequence[str] = ("id", "conversation", "policy")) -> Findings:
    for field in fields:
        if match := _HALF_PAIR.search(getattr(case, field)):
            yield field, f"holds half of a surrogate pair: {match[0]!r} at {match.start()}"


def _conversation(case: Case) -> Findings:
    if not case.conversation.strip():
        yield "conversation", "is empty"
        return
    try:
        turns = parse_conversation(case.conversation)
    except DataError as error:
        yield "conversation", str(error)
        return
    for turn in turns:
        for match in MARK.finditer(turn.text):
            where = f"turn {turn.number} of the {turn.role}"
            yield (
                "conversation",
                f"{where} holds {match[0]!r}, which is not the turn that comes next",
            )
        if not turn.text:
            yield "conversation", f"turn {turn.number} of the {turn.role} is empty"


def _framework(case: Case) -> Findings:
    if case.level is not Level.L2 and case.framework:
        yield "framework", f"is not empty, but the level is {case.level}"
    if case.level is Level.L2 and not case.framework.strip():
        yield "framework", "is empty, but the level is L2"
    if case.framework not in case.policy:
        yield "framework", "is no verbatim part of the policy"


def _policy(case: Case) -> Findings:
    try:
        policy = parse_policy(case.policy, case.framework)
    except DataError as error:
        yield "policy", str(error)
        return
    numbers = sorted(rule.number for rule in policy.rules)
    if numbers != list(range(1, len(numbers) + 1)):
        yield "policy", f"rule numbers are not 1 to {len(numbers)}: {_listed(numbers)}"
    for rule in policy.rules:
        if missing := set(rule.references) - set(numbers):
            yield "policy", f"rule {rule.number} names rules that do not exist: {_listed(missing)}"
    yield from _outside(case, numbers)
    yield from _rubric_against_policy(case.rubric, policy)


def _rubric_against_policy(rubric: Sequence[RubricEntry], policy: Policy) -> Findings:
    texts = {rule.number: _plain(rule.text) for rule in policy.rules}
    judged = [entry.rule for entry in rubric]
    if twice := {rule for rule in judged if judged.count(rule) > 1}:
        yield "rubric", f"has more than one entry for rules {_listed(twice)}"
    yield from _other_rules(rubric, set(texts))
    for entry in rubric:
        text = _plain(take_notes(entry.text)[0])
        if entry.rule in texts and not (text and texts[entry.rule].startswith(text)):
            yield "rubric", f"the text of rule {entry.rule} is not how the policy's rule begins"


def _other_rules(rubric: Sequence[RubricEntry], numbers: set[int]) -> Findings:
    judged = {entry.rule for entry in rubric}
    if extra := judged - numbers:
        yield "rubric", f"has rules that the policy lacks: {_listed(extra)}"
    if missing := numbers - judged:
        yield "rubric", f"lacks rules of the policy: {_listed(missing)}"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _rubric(case: Case) -> Findings:
    numbers = {entry.rule for entry in case.rubric}
    violated = {entry.rule for entry in case.rubric if entry.violated}
    if violated != case.ground_truth_violations:
        difference = _listed(violated ^ case.ground_truth_violations)
        yield "rubric", f"violations differ from the ground truth in rules {difference}"
    never = (RuleType.DISTRACTOR, RuleType.CONDITIONAL)
    for entry in case.rubric:
        if entry.type in never and entry.rule in case.ground_truth_violations:
            yield "ground_truth_violations", f"holds rule {entry.rule}, a {entry.type}"
        if entry.type.is_modifier and case.level is Level.L0:
            yield "rubric", f"rule {entry.rule} is of type {entry.type}, but the level is L0"
        if entry.type.is_modifier != bool(entry.paired_with):
            has = "has no paired_with" if entry.type.is_modifier else "has a paired_with"
            yield "rubric", f"rule {entry.rule} is of type {entry.type} and {has}"
        if missing := set(entry.paired_with) - (numbers - {entry.rule}):
            yield "rubric", f"rule {entry.rule} is paired with {_listed(missing)}, no other rule"


def _failure_modes(case: Case) -> Findings:
    field = "failure_mode_metadata"
    modes = case.failure_mode_metadata
    distractors = {entry.rule for entry in case.rubric if entry.type is RuleType.DISTRACTOR}
    if difference := modes.distractor_rules ^ distractors:
        yield field, f"distractor_rules differ from the rubric in rules {_listed(difference)}"
    truth = case.ground_truth_violations
    for name, rules, kind, in_truth in (
        ("waived_rules", modes.waived_rules, RuleType.EXCEPTION, False),
        ("contradicted_rules", modes.contradicted_rules, RuleType.CONDITIONAL, True),
    ):
        paired = {rule for e in case.rubric if e.type is kind for rule in e.paired_with}
        if unpaired := rules - paired:
            yield field, f"{name} without {kind} paired with them: {_listed(unpaired)}"
        if in_truth and rules - truth:
            yield field, f"{name} are missing in the ground truth: {_listed(rules - truth)}"
        if not in_truth and rules & truth:
            yield field, f"{name} are in the ground truth: {_listed(rules & truth)}"


_CHECKS: tuple[Callable[[Case], Findings], ...] = (
    _id_form,
    _half_pairs,
    _conversation,
    _framework,
    _policy,
    _rubric,
    _failure_modes,
)


def _unusable(case: Case) -> Findings:
    yield from _half_pairs(case, ("id",))
    if not case.conversation.strip():
        yield "conversation", "is empty"
    try:
        numbers = {rule.number for rule in parse_policy(case.policy, case.framework).rules}
    except DataError as error:
        yield "policy", str(error)
        return
    yield from _outside(case, numbers)
    yield from _other_rules(case.rubric, numbers)


def _outside(case: Case, numbers: Iterable[int]) -> Findings:
    if outside := case.ground_truth_violations - set(numbers):
        yield "ground_truth_violations", f"names rules that the policy lacks: {_listed(outside)}"


def _ids(ids: Sequence[str]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, id in enumerate(ids):
        first = seen.setdefault(id.strip().lower(), i)
        if first != i:
            yield Problem(id, "id", f"another case has the id {ids[first]!r}")


def _pyramids(cases: Sequence[Case], unread: Sequence[str] = ()) -> Iterator[Problem]:
    by_conversation: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.conversation_id != case.id:
            by_conversation[case.conversation_id.lower()].append(case)
    every = set(Level) if len({case.level for case in cases}) > 1 else set()
    known = {conversation_of(id).lower() for id in unread}
    for name, group in by_conversation.items():
        expected = set() if name in known else every
        first = group[0]
        levels = [case.level for case in group]
        if missing := expected - set(levels):
            yield Problem(
                first.id, "level", f"{first.conversation_id} has no case at {_listed(missing)}"
            )
        if twice := {level for level in levels if levels.count(level) > 1}:
            yield Problem(
                first.id, "level", f"{first.conversation_id} has several cases at {_listed(twice)}"
            )
        for case in group[1:]:
            if case.conversation != first.conversation:
                yield Problem(case.id, "conversation", f"differs from that of {first.id}")


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(items, key=lambda item: (isinstance(item, str), item))))
