"""The table of guards, and how one is found by name or in a file of one's own."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from safepyramid.errors import GuardError
from safepyramid.guards.base import Guard
from safepyramid.guards.baselines import every, lexical, none, uniform
from safepyramid.guards.chat import chat
from safepyramid.schema import PROTOCOLS, Protocol

GUARDS: Mapping[str, Callable[..., Guard]] = {
    "chat": chat,
    "none": none,
    "all": every,
    "random": uniform,
    "lexical": lexical,
}
"""Guard name -> function that makes it. Each takes `prompts`, a folder of templates or None,
and the guard's own options as keywords."""

BASELINES = ("none", "all", "random", "lexical")
"""The guards that need no model and are shown beside every result."""


def load_guard(
    name: str, prompts: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Guard:
    """A guard by name, or from a file.

    Args:
        name: A name in `GUARDS`, or `path/to/file.py:NAME` where NAME is a `Guard`, a function
            that makes one, or a function from a case to the violated rules.
        prompts: A folder of templates that replace the guard's own.
        options: The guard's options, by name.

    Raises:
        GuardError: for an unknown name, file, option or template.
    """
    options = dict(options or {})
    if ".py:" in name:
        return _from_file(name, prompts, options)
    if name not in GUARDS:
        raise GuardError(
            f"unknown guard {name!r}; allowed: {', '.join(GUARDS)}, or path/to/guard.py:NAME"
        )
    return _made(name, GUARDS[name], prompts, options)


def check_protocol(guard: Guard, protocol: Protocol) -> None:
    """Raise a GuardError if the guard cannot be run under the protocol."""
    if not guard.supports(protocol):
        able = ", ".join(p for p in PROTOCOLS if guard.supports(p))
        raise GuardError(f"guard {guard.name!r} does not support {protocol}; it supports: {able}")


def _made(
    name: str,
    factory: Callable[..., Guard],
    prompts: str | Path | None,
    options: Mapping[str, Any],
) -> Guard:
    allowed = [p for p in inspect.signature(factory).parameters if p != "prompts"]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise GuardError(
            f"guard {name!r} has no option {unknown[0]!r}; allowed: {', '.join(allowed) or 'none'}"
        )
    return factory(prompts, **options)


def _from_file(name: str, prompts: str | Path | None, options: Mapping[str, Any]) -> Guard:
    path_text, _, attribute = name.rpartition(":")
    found = getattr(_module(Path(path_text)), attribute, None)
    if isinstance(found, Guard):
        return found
    if not callable(found):
        raise GuardError(f"{path_text} has no guard {attribute!r}; give file.py:NAME of one")
    if list(inspect.signature(found).parameters)[:1] == ["prompts"]:
        return _made(name, found, prompts, options)
    if inspect.signature(found).parameters and not options:
        return Guard(name=attribute, predict=found)
    made = found(**options)
    if not isinstance(made, Guard):
        raise GuardError(f"{name} made a {type(made).__name__}, not a Guard")
    return made


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise GuardError(f"no guard file {str(path)!r}; give path/to/guard.py:NAME")
    spec = importlib.util.spec_from_file_location(f"safepyramid_guard_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GuardError(f"{str(path)!r} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
