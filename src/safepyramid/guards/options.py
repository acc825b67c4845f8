"""Checks of guards' options, with messages for people."""

from collections.abc import Sequence

from safepyramid.errors import GuardError


def one_of(guard: str, option: str, value: object, allowed: Sequence[str | int]) -> None:
    """Raise a GuardError unless the value is one of the allowed ones."""
    if isinstance(value, bool) or value not in allowed:
        raise GuardError(
            f"guard {guard!r}: {option}={value!r} is not allowed; give one of: "
            f"{', '.join(map(str, allowed))}"
        )


def number_in(guard: str, option: str, value: object, low: float, high: float) -> None:
    """Raise a GuardError unless the value is a number from low to high."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise GuardError(
            f"guard {guard!r}: {option}={value!r} is not allowed; give a number from "
            f"{low:g} to {high:g}"
        )


def flag(guard: str, option: str, value: object) -> None:
    """Raise a GuardError unless the value is true or false."""
    if not isinstance(value, bool):
        raise GuardError(f"guard {guard!r}: {option}={value!r} is not allowed; give true or false")
