"""What may reach a terminal.

Ids, texts and replies come from models and strangers: an escape sequence could rewrite the screen,
a direction mark could reverse a sentence, a line break could forge a line of ours.
"""

import click

_UNSAFE = dict.fromkeys(
    [
        *(code for code in range(0x20) if chr(code) not in "\t\n"),
        *range(0x7F, 0xA0),
        *(0x061C, 0x200E, 0x200F),  # direction marks
        *range(0x2028, 0x202F),  # line and paragraph separators, direction overrides
        *range(0x2066, 0x206A),  # direction isolates
        *range(0xD800, 0xE000),  # half of a surrogate pair cannot be written at all
    ],
    "\N{REPLACEMENT CHARACTER}",
)


def printable(text: str) -> str:
    r"""The text with a mark in place of each character that acts on a terminal.

    These are control characters, half surrogate pairs, marks that change the direction of text,
    and Unicode's separators of lines. Tabs and line feeds stay; `\r\n` counts as a line feed.

    >>> printable("a\x1b[31m\r\nb")
    'a�[31m\nb'
    """
    return text.replace("\r\n", "\n").translate(_UNSAFE)


def one_line(text: str) -> str:
    r"""As `printable`, for what must not break a line: tabs and line feeds become spaces.

    >>> one_line("frau-001\nall is well")
    'frau-001 all is well'
    """
    return printable(text).replace("\n", " ").replace("\t", " ")


def say(text: str, *, err: bool = False) -> None:
    """Print a text that may hold words of models and strangers, and a line feed.

    Args:
        text: As for `printable`.
        err: To stderr.
    """
    click.echo(printable(text), err=err)
