"""Taking secrets out of what is published: settings, errors, and what models say."""

import html
import json
from collections.abc import Callable, Mapping
from typing import Any

from safepyramid.secrets import REMOVED, secret_values


def make_last_check(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Make the function that takes the environment's keys out of a finished page or data file.

    It knows them as they stand there: as they are, escaped for HTML, and escaped for JSON.
    """
    forms = {
        form
        for value in secret_values(environ)
        for form in (value, html.escape(value), json.dumps(value)[1:-1])
    }
    ordered = sorted(forms, key=lambda form: (-len(form), form))

    def check(page: str) -> str:
        for form in ordered:
            if form in page:
                page = page.replace(form, REMOVED)
        return page

    return check


def scrub_all(value: Any, scrub: Callable[[str], str]) -> Any:
    """The same value with every text in it scrubbed, the keys of its maps included."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub(str(key)): scrub_all(item, scrub) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_all(item, scrub) for item in value]
    return value
