"""Taking secrets out of texts that are kept, shown or published."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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
    without_known = make_known_scrub(environ)

    def scrub(text: str) -> str:
        return _AFTER.sub(_keep, _WHOLE.sub(REMOVED, without_known(text)))

    return scrub


def make_known_scrub(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Make the function that takes the environment's own secrets out of a text, and no others.

    For texts of models, in which what only looks like a key belongs to the story.

    Args:
        environ: As for `make_scrub`.
    """
    values = secret_values(environ)
    if not values:
        return lambda text: text
    known = re.compile("|".join(map(re.escape, values)))
    return lambda text: known.sub(REMOVED, text)


def scrubbed(text: str, length: int) -> str:
    """The beginning of a text as one line, without anything that is or looks like a key."""
    text = " ".join(make_scrub()(text).split())
    return text if len(text) <= length else f"{text[:length]}…"


_NO_SECRET = re.compile(r"cache_key$", re.IGNORECASE)
_SENT = re.compile(
    r"(?:^|_)(?:AUTH|AUTHORIZATION|COOKIE|BEARER|SIG|SIGNATURE)(?:$|_)", re.IGNORECASE
)
"""Further names under which requests carry secrets."""


def secret_in(value: Any, name: str = "") -> str | None:
    """Where a nested value of maps and lists holds what is named or looks like a secret.

    Returns:
        The dotted name of the first; None if there is none.

    >>> secret_in({"extra_headers": {"X-Api-Key": "abc"}, "max_tokens": 10})
    'extra_headers.X-Api-Key'
    """
    if isinstance(value, str):
        named = bool(value) and names_secret(name.rpartition(".")[2])
        return name if named or make_scrub()(value) != value else None
    if isinstance(value, Mapping):
        inner = [(f"{name}.{key}".removeprefix("."), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(name, each) for each in value]
    else:
        return None
    found = (secret_in(each, place) for place, each in inner)
    return next((place for place in found if place is not None), None)


def names_secret(name: str) -> bool:
    """Whether a variable, header or parameter is named like one that holds a secret."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_")
    return bool(_NAME.search(plain) or _SENT.search(plain)) and not _NO_SECRET.search(plain)


def has_secret(url: str) -> bool:
    """Whether an address holds a user or password, or a parameter that is named like a secret.

    >>> has_secret("https://host/v1?api-version=1"), has_secret("https://host/v1#key=abc")
    (False, True)
    """
    parts = urlsplit(url)
    return "@" in parts.netloc or any(
        names_secret(name) and value
        for part in (parts.query, parts.fragment)
        for name, value in parse_qsl(part)
    )


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
