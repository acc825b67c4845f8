"""The table of guards as people read it: rows for a terminal, and the reference page.

`python -m safepyramid.guards.page docs/guards.md` writes the reference into the page, between its
two marks.
"""

import inspect
import re
import sys
from pathlib import Path

from safepyramid.errors import GuardError
from safepyramid.guards.table import GUARDS, Entry
from safepyramid.prompts.render import gaps, load_templates

BEGIN, END = "<!-- guards: begin -->", "<!-- guards: end -->"
"""What stands between them in the page is generated."""

COLUMNS = ("guard", "protocols", "endpoint", "options", "what it is")


def guards_table() -> list[tuple[str, ...]]:
    """One row a guard, in the order of the table, with the columns of `COLUMNS`."""
    return [
        (
            name,
            ", ".join(entry.protocols),
            entry.endpoint,
            ", ".join(f"{option}={default}" for option, default, _ in options_of(entry)) or "-",
            entry.summary,
        )
        for name, entry in GUARDS.items()
    ]


def options_of(entry: Entry) -> list[tuple[str, str, str]]:
    """A guard's options: name, default, and what its docstring says of it."""
    function = entry.load()
    told = _told(inspect.getdoc(function) or "")
    return [
        (name, str(parameter.default).lower(), told.get(name, ""))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "prompts"
    ]


def _told(docstring: str) -> dict[str, str]:
    """The arguments of a Google docstring, name -> text on one line."""
    _, _, arguments = docstring.partition("Args:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", arguments, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def render_guards_page() -> str:
    """The reference part of the page on guards, as Markdown: a table, then a section a guard."""
    head = "| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS)
    rows = ["| " + " | ".join((f"`{row[0]}`", *row[1:])) + " |" for row in guards_table()]
    sections = [_section(name, entry) for name, entry in GUARDS.items()]
    return "\n".join([head, *rows, "", "\n\n".join(sections)])


def _section(name: str, entry: Entry) -> str:
    facts = [
        ("Models", ", ".join(f"`{model}`" for model in entry.models)),
        ("Size", entry.size),
        ("Licence", entry.licence),
        ("Protocols", ", ".join(entry.protocols)),
        ("Endpoint", entry.endpoint),
        ("Conversation", entry.layout),
        ("Source of the format", entry.source),
    ]
    lines = [f"### {name}", "", entry.summary, ""]
    lines += [f"* {label}: {fact}" for label, fact in facts if fact]
    lines += [
        f"* Option `{option}`, default `{default}`: {text}"
        for option, default, text in options_of(entry)
    ]
    lines += [
        f"* Template `{template}.md`, gaps: {', '.join(f'`{gap}`' for gap in sorted(gaps(text))) or 'none'}"
        for template, text in sorted(load_templates(name).items())
    ]
    lines += [f"* {sentence}" for sentence in entry.known]
    return "\n".join(lines)


def with_reference(page: str) -> str:
    """A page with its reference part made anew.

    Raises:
        GuardError: The page lacks the two marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise GuardError(f"the page has no {BEGIN} … {END}; put both lines where it should go")
    return f"{before}{BEGIN}\n\n{render_guards_page()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_reference(path.read_text(encoding="utf-8")), encoding="utf-8")
