"""NAME=VALUE options of the command line."""

import json
from collections.abc import Sequence
from typing import Any

import click


def pairs(given: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE options as a dict; a value that is JSON is read as such.

    Raises:
        click.UsageError: An option has no name or no equals sign.

    >>> pairs(["think=true", "mode=fast"])
    {'think': True, 'mode': 'fast'}
    """
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{item!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
