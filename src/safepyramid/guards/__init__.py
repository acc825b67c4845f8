"""Guards: how each is found, by its name in the table or in a file of one's own."""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from safepyramid.errors import GuardError, SafepyramidError
from safepyramid.guards.base import Guard
from safepyramid.guards.table import GUARDS

__all__ = ["GUARDS", "files_digest", "load_guard"]


def load_guard(
    name: str,
    prompts: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    structured: bool = False,
) -> Guard:
    """A guard by name, or from a file.

    Args:
        name: A name in `GUARDS`, or `path/to/file.py:NAME` where NAME is a `Guard`, a function
            that makes one, a function from a case to the violated rules, or a class whose
            objects are such functions.
        prompts: A folder of templates that replace the guard's own.
        options: The guard's options, by name.
        structured: Ask for the answer in a JSON form that the provider enforces.

    Raises:
        GuardError: for an unknown name, file, option or template, or a form that the guard does
            not take.
    """
    guard = _found(name, prompts, dict(options or {}))
    if not structured:
        return guard
    if guard.predict is None and name in GUARDS and not GUARDS[name].free_form:
        free = ", ".join(other for other, entry in GUARDS.items() if entry.free_form)
        raise GuardError(
            f"guard {name!r} was trained to answer in a form of its own: leave --structured out; "
            f"guards that take a form: {free}"
        )
    from safepyramid.guards.structured import structured as in_a_form

    return in_a_form(guard)


def _found(name: str, prompts: str | Path | None, options: Mapping[str, Any]) -> Guard:
    if ".py:" in name:
        return _from_file(name, prompts, options)
    if name not in GUARDS:
        raise GuardError(
            f"unknown guard {name!r}; allowed: {', '.join(GUARDS)}, or path/to/guard.py:NAME"
        )
    return _made(name, GUARDS[name].load(), prompts, options)


def files_digest(
    name: str, prompts: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> str | None:
    """A short digest of the files that a guard is made from, so that a change of them is seen.

    These are the guard's own file, the templates of the folder, and files that options name. What
    the guard's file itself imports or reads is not followed.

    Args:
        name: As for `load_guard`; a guard of the table has no file.
        prompts: As for `load_guard`.
        options: As for `load_guard`.

    Returns:
        None without any file.
    """
    files = [Path(name.rpartition(":")[0])] if ".py:" in name else []
    if files and prompts is not None:  # a guard of the table tells its templates itself
        files += sorted(path for path in Path(prompts).rglob("*") if path.is_file())
    named = (value for _, value in sorted((options or {}).items()) if isinstance(value, str))
    files += [Path(value) for value in named if value and Path(value).is_file()]
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12] if files else None


def _made(
    name: str,
    factory: Callable[..., Any],
    prompts: str | Path | None,
    options: Mapping[str, Any],
) -> Guard:
    parameters = list(_signature(name, factory).parameters)
    allowed = [p for p in parameters if p != "prompts"]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise GuardError(
            f"guard {name!r} has no option {unknown[0]!r}; allowed: {', '.join(allowed) or 'none'}"
        )
    if "prompts" in parameters:
        given: dict[str, Any] = {"prompts": prompts, **options}
    else:
        _require_no_prompts(name, prompts)
        given = dict(options)
    try:
        made = factory(**given)
    except SafepyramidError:
        raise
    except Exception as error:
        raise GuardError(f"guard {name!r} cannot be made: {_told(error)}") from error
    if isinstance(made, Guard):
        return made
    if callable(made):  # an object that is called with a case
        return Guard(name=name.rpartition(":")[2], predict=made)
    raise GuardError(f"{name} made a {type(made).__name__}, not a Guard")


def _from_file(name: str, prompts: str | Path | None, options: Mapping[str, Any]) -> Guard:
    path_text, _, attribute = name.rpartition(":")
    found = getattr(_module(Path(path_text)), attribute, None)
    if not isinstance(found, Guard) and not callable(found):
        raise GuardError(f"{path_text} has no guard {attribute!r}; give file.py:NAME of one")
    if not isinstance(found, Guard) and not _takes_a_case(name, found):
        return _made(name, found, prompts, options)
    _require_no_prompts(name, prompts)
    if options:
        raise GuardError(f"guard {name!r} has no option {sorted(options)[0]!r}; allowed: none")
    return found if isinstance(found, Guard) else Guard(name=attribute, predict=found)


def _takes_a_case(name: str, function: Callable[..., Any]) -> bool:
    """Whether it is a function to be called with a case, not one that makes a guard."""
    required = [
        parameter
        for parameter in _signature(name, function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(required) == 1 and not inspect.isclass(function) and required[0].name != "prompts"


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise GuardError(f"guard {name!r}: its arguments cannot be known ({error})") from error


def _told(error: BaseException) -> str:
    """An error on one line, with its type where its words alone might not tell what it is."""
    plain = isinstance(error, ImportError | SyntaxError)
    said = str(error) if plain else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:300]


def _require_no_prompts(name: str, prompts: str | Path | None) -> None:
    if prompts is not None:
        raise GuardError(f"guard {name!r} has no templates; leave --prompts out")


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise GuardError(f"no guard file {str(path)!r}; give path/to/guard.py:NAME")
    spec = importlib.util.spec_from_file_location(f"safepyramid_guard_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GuardError(f"{str(path)!r} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise GuardError(f"{str(path)!r} cannot be loaded: {_told(error)}") from error
    return module
