"""Taking secrets out of texts that are kept, shown or published."""

import os
import re
from collections.abc import Callable, Mapping

REMOVED = "[secret removed]"
"""What stands in a secret's place."""

_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.IGNORECASE
)
_SHORTEST = 8
"""Shorter values of environment variables are words such as "true", not keys."""

_DIGIT = r"(?=[\w.~+/-]*\d)"
_WHOLE = re.compile(
    "|".join(
        (
            rf"(?<![\w-])(?:sk|rk|pk|xai|nvapi|pplx|glpat|co|r8)[-_]{_DIGIT}[\w-]{{12,}}",
            rf"(?<![\w-])(?:hf|gsk|r8|tgp|github_pat|gh[pousr])_{_DIGIT}\w{{16,}}",
            r"(?<![\w-])xox[abeprs]-[\w-]{10,}",
            r"(?<!\w)AIza[\w-]{30,}",
            r"(?<!\w)ya29\.[\w-]{20,}",
            r"(?<!\w)A[KS]IA[0-9A-Z]{16}(?!\w)",
            r"(?<!\w)eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{16,}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        )
    )
)
"""Keys that can be told by their own look: those of the model providers, and the usual others."""

_AFTER = re.compile(
    r"(?P<keep>(?:authorization|(?:x-)?(?:goog-)?api[-_ ]?key|access[-_]?token|client[-_]?secret)"
    r"""["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?|\bbearer\s+|"""
    r"[?&](?:key|token|sig|signature|password)=)"
    rf"{_DIGIT}[\w.~+/=-]{{10,}}"
    r"|(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+(?=@)",
    re.IGNORECASE,
)
"""Secrets that can be told by what stands before them, which is kept."""


def make_scrub(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Make the function that takes secrets out of a text.

    A secret is what looks like a key, what stands where keys stand (an `Authorization` header, a
    `?key=`, the password of an address), and the value of every environment variable that is named
    like one (`…_API_KEY`, `HF_TOKEN`).

    Args:
        environ: The environment; the process's own if not given.
    """
    values = secret_values(environ)
    known = re.compile("|".join(map(re.escape, values))) if values else None

    def scrub(text: str) -> str:
        if known is not None:
            text = known.sub(REMOVED, text)
        return _AFTER.sub(_keep, _WHOLE.sub(REMOVED, text))

    return scrub


def scrubbed(text: str, length: int) -> str:
    """The beginning of a text as one line, without anything that is or looks like a key."""
    text = " ".join(make_scrub()(text).split())
    return text if len(text) <= length else f"{text[:length]}…"


def secret_values(environ: Mapping[str, str] | None = None) -> list[str]:
    """The values of environment variables that are named like secrets, the longest first."""
    found = {
        value.strip()
        for name, value in (os.environ if environ is None else environ).items()
        if _NAME.search(name) and len(value.strip()) >= _SHORTEST
    }
    return sorted(found, key=lambda value: (-len(value), value))


def _keep(match: re.Match[str]) -> str:
    return f"{match['keep'] or match['scheme']}{REMOVED}"
