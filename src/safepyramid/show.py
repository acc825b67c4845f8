"""One case as a page for a terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

from safepyramid.conversation import parse_conversation
from safepyramid.errors import DataError
from safepyramid.policy.parse import parse_policy
from safepyramid.schema import Case, RubricEntry, Rule
from safepyramid.terminal import one_line, printable

_ROLES = {"user": ("User", "cyan"), "chatbot": ("Chatbot", "green")}


def render_case(case: Case, *, width: int | None = None, labels: bool = False) -> RenderableType:
    """Lay out a case: conversation, policy and, on demand, the truth.

    Args:
        case: Any case; a conversation or policy that cannot be taken apart is shown as it is.
        width: Columns at most; the width of the terminal if not given.
        labels: Show types, violated, waived and contradicted rules, and evidence if loaded.

    Returns:
        What `rich` can print. Nothing in the case's texts is read as markup or as a control code.
    """
    parts: list[RenderableType] = [
        Text(one_line(f"{case.id}   {case.domain}   {case.level}"), style="bold"),
        _heading("Conversation"),
        _conversation(case.conversation),
        _heading("Policy"),
        *_policy(case, labels),
    ]
    if labels:
        parts += [_heading("Truth"), *_truth(case)]
    page = Group(*parts)
    return page if width is None else Constrain(page, width)


def _heading(title: str) -> RenderableType:
    return Group(Text(), Line(title, align="left", characters="-", style="dim"))


def _grid(columns: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _conversation(text: str) -> RenderableType:
    try:
        turns = parse_conversation(text)
    except DataError:
        return Text(printable(text) or "(empty)")
    grid = _grid(2)
    for turn in turns:
        name, color = _ROLES[turn.role]
        number = str(turn.number) if turn.role == turns[0].role else ""
        grid.add_row(
            Text(number, style="dim", justify="right"),
            Text(name, style=f"bold {color}"),
            Text(printable(turn.text), style=color),
        )
    return grid


def _policy(case: Case, labels: bool) -> Iterator[RenderableType]:
    try:
        policy = parse_policy(case.policy, case.framework)
    except DataError:
        yield Text(printable(case.policy))
        return
    for part, style in ((policy.instruction, "none"), (policy.framework, "italic")):
        if part:
            yield Text(printable(part), style=style)
            yield Text()
    grid = _grid(2 if labels else 1)
    for rule in policy.rules:
        violated = labels and rule.number in case.ground_truth_violations
        style = "bold red" if violated else "none"
        cells = [Text(f"{rule.number}.", style=style, justify="right")]
        if labels:
            cells.append(Text(_label(case, rule.number), style=style if violated else "dim"))
        grid.add_row(*cells, Text(printable(rule.text + _note(rule)), style=style))
    yield grid


def _note(rule: Rule) -> str:
    return (
        f" [overrides: {', '.join(f'Rule {n}' for n in rule.overrides)}]" if rule.overrides else ""
    )


def _label(case: Case, number: int) -> str:
    kind = case.rule_types.get(number)
    words = [kind.value if kind else "no type"]
    modes = case.failure_mode_metadata
    if number in case.ground_truth_violations:
        words.append("violated")
    if number in modes.waived_rules:
        words.append("waived")
    if number in modes.contradicted_rules:
        words.append("contradicted")
    return "\n".join(words)


def _truth(case: Case) -> Iterator[RenderableType]:
    modes = case.failure_mode_metadata
    grid = _grid(1)
    for name, rules in (
        ("violated", case.ground_truth_violations),
        ("waived", modes.waived_rules),
        ("contradicted", modes.contradicted_rules),
    ):
        grid.add_row(Text(name, style="bold"), Text(", ".join(map(str, sorted(rules))) or "none"))
    for entry in case.rubric:
        if entry.paired_with:
            pairs = ", ".join(map(str, entry.paired_with))
            flags = "".join(f"; {key}: {value}" for key, value in entry.flags.items())
            grid.add_row(
                Text(f"rule {entry.rule}", style="dim"), Text(printable(f"acts on {pairs}{flags}"))
            )
    yield grid
    for entry in case.rubric:
        if entry.evidence is not None:
            yield from _evidence(entry)


def _evidence(entry: RubricEntry) -> Iterator[RenderableType]:
    yield Text()
    yield Text(f"Evidence on rule {entry.rule}", style="bold red" if entry.violated else "bold")
    for line in _lines(entry.evidence, 1):
        yield Text(printable(line))


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Nested evidence, whatever its form, as indented lines."""
    indent = "  " * depth
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield f"{indent}{key}:"
                yield from _lines(item, depth + 1)
            else:
                yield f"{indent}{key}: {item}"
    elif isinstance(value, list):
        for item in value:
            first, *rest = [*_lines(item, depth + 1)] or [""]
            yield f"{indent}- {first.lstrip()}"
            yield from rest
    else:
        yield f"{indent}{value}"
