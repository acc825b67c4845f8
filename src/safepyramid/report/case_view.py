"""A case as its page shows it, and what the runs said about it."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from safepyramid.conversation import parse_conversation
from safepyramid.errors import DataError
from safepyramid.policy.parse import parse_policy
from safepyramid.report.contents import CasePage, ReportRun, outcome, shown_rules
from safepyramid.report.text import Quote, find_quotes, link_rules, mark_quotes, printable, tree
from safepyramid.schema import Case, Policy, Prediction, RubricEntry, Rule, State, Turn


def case_view(case: Case) -> dict[str, Any]:
    """What the template of a case page shows, as escaped text.

    A conversation or policy that cannot be taken apart is shown as it is.
    """
    turns = _turns(case)
    quotes = find_quotes(case.rubric, turns)
    policy = _policy(case)
    return {
        "id": printable(case.id),
        "level": case.level.value,
        "domain": printable(case.domain),
        "truth": _truth(case),
        "turns": _turn_views(case, turns, quotes),
        "has_quotes": bool(quotes),
        "conversation": printable(case.conversation),
        "instruction": printable(policy.instruction) if policy else "",
        "framework": printable(policy.framework) if policy else "",
        "raw_policy": "" if policy else printable(case.policy),
        "rules": [
            _rule_view(case, number, rule, entry, turns, [q for q in quotes if q.rule == number])
            for number, rule, entry in _rules(case, policy)
        ],
    }


def _turns(case: Case) -> tuple[Turn, ...]:
    try:
        return parse_conversation(case.conversation)
    except DataError:
        return ()


def _policy(case: Case) -> Policy | None:
    try:
        return parse_policy(case.policy, case.framework)
    except DataError:
        return None


def _rules(case: Case, policy: Policy | None) -> list[tuple[int, Rule | None, RubricEntry | None]]:
    """Rules in the order of the policy text; then those that only the rubric has."""
    entries = {entry.rule: entry for entry in case.rubric}
    stated = {rule.number: rule for rule in policy.rules} if policy else {}
    numbers = [*stated, *(number for number in entries if number not in stated)]
    return [(number, stated.get(number), entries.get(number)) for number in numbers]


def _truth(case: Case) -> Markup:
    meta = case.failure_mode_metadata
    rows = (
        ("violated", case.ground_truth_violations),
        ("waived", meta.waived_rules),
        ("violated only through a conditional", meta.contradicted_rules),
    )
    parts = [
        Markup("{} {}").format(name, _links(sorted(rules)))
        for name, rules in rows
        if rules or name == "violated"
    ]
    return Markup("; ").join(parts)


def _links(rules: Sequence[int]) -> Markup:
    if not rules:
        return Markup("no rule")
    return Markup(", ").join(Markup('<a href="#r{0}">{0}</a>').format(rule) for rule in rules)


def _turn_views(case: Case, turns: Sequence[Turn], quotes: Sequence[Quote]) -> list[dict[str, Any]]:
    views = []
    for index, turn in enumerate(turns):
        here = [quote for quote in quotes if quote.turn == index]
        rules = sorted({quote.rule for quote in here})
        views.append(
            {
                "anchor": _anchor(turn),
                "number": turn.number,
                "role": turn.role,
                "rules": [(rule, rule in case.ground_truth_violations) for rule in rules],
                "html": mark_quotes(turn.text, [quote for quote in here if quote.end]),
            }
        )
    return views


def _anchor(turn: Turn) -> str:
    return f"t{turn.number}-{turn.role}"


def _rule_view(
    case: Case,
    number: int,
    rule: Rule | None,
    entry: RubricEntry | None,
    turns: Sequence[Turn],
    quotes: Sequence[Quote],
) -> dict[str, Any]:
    meta, known = case.failure_mode_metadata, case.rule_types
    words = [
        word
        for word, rules in (
            ("violated", case.ground_truth_violations),
            ("waived", meta.waived_rules),
            ("through a conditional", meta.contradicted_rules),
        )
        if number in rules
    ]
    for flag in ("applies", "active"):
        if entry is not None and flag in entry.flags:
            words.append(
                flag if entry.flags[flag] else f"not {flag}".replace("applies", "applying")
            )
    text = rule.text if rule is not None else (entry.text if entry is not None else "")
    note = (
        f" [overrides: {', '.join(f'Rule {n}' for n in rule.overrides)}]"
        if rule and rule.overrides
        else ""
    )
    places = dict.fromkeys(turns[quote.turn] for quote in quotes)
    return {
        "number": number,
        "type": entry.type.value if entry is not None else "type unknown",
        "violated": number in case.ground_truth_violations,
        "words": words,
        "pairs": _links(entry.paired_with) if entry is not None and entry.paired_with else "",
        "html": link_rules(text + note, known),
        "places": [(_anchor(turn), f"{turn.number} {turn.role}") for turn in places],
        "evidence": tree(entry.evidence) if entry is not None and entry.evidence else "",
    }


def case_data(page: CasePage, runs: Sequence[ReportRun], numbers: Sequence[int]) -> dict[str, Any]:
    """What the runs said about a case, for the page's script.

    Args:
        page: The case.
        runs: All runs of the report.
        numbers: The case's rules in the order of the page.

    Returns:
        `case`, the page's own name; `rules`, number and violated (1 or 0), in the order of the policy;
        `runs`, one each for those that were asked it: `run` (the run page's name), `state`, `outcome`
        (see `contents.outcome`), and where there is one `said` (the rules that it calls violated), `more`
        (how many further numbers it names that the policy does not have),
        `asked` (per rule: the rules that it was asked about), `failed` (rule -> state of a verdict that
        was not answered), `unknown`, `loose` (a plain JSON reader would not have read it), `note`,
        `notes` (rule -> note), `reply`.
    """
    case = page.case
    said = []
    for index in page.runs:
        each = runs[index]
        prediction = each.run.predictions[case.id]
        said.append(
            {
                "run": each.slug,
                "state": prediction.state.value,
                "outcome": outcome(case, prediction),
                **_said(case, prediction),
                **({"reply": each.replies[case.id]} if case.id in each.replies else {}),
            }
        )
    return {
        "case": page.slug,
        "rules": [[number, int(number in case.ground_truth_violations)] for number in numbers],
        "runs": said,
    }


def _said(case: Case, prediction: Prediction) -> dict[str, Any]:
    violated, more = shown_rules(case, prediction.violated or ())
    found: dict[str, Any] = {
        "said": None if prediction.violated is None else sorted(violated),
        "more": more or None,
        "unknown": sorted(shown_rules(case, prediction.unknown_rules)[0]),
        "loose": prediction.state is State.ANSWERED and not prediction.strict,
        "note": prediction.note,
    }
    if prediction.judgments:
        verdicts = {judgment.rule: judgment.verdict for judgment in prediction.judgments}
        found["asked"] = sorted(verdicts)
        found["failed"] = {
            str(rule): verdict.state.value
            for rule, verdict in verdicts.items()
            if verdict.state is not State.ANSWERED
        }
        found["notes"] = {
            str(rule): verdict.note for rule, verdict in verdicts.items() if verdict.note
        }
    return {key: value for key, value in found.items() if value not in (None, False, "", {})}
