"""The errors that safepyramid raises on purpose.

SafepyramidError
├── DataError    a data, result or policy file that cannot be used
├── GuardError   a guard, template or option that cannot be used
└── RunError     an evaluation that cannot start or go on

Each message is one line for a person: the bad value, what is allowed, the next step.
The command line prints it without a traceback and exits with 1.
"""


class SafepyramidError(Exception):
    """Base of all errors that a user can mend."""


class DataError(SafepyramidError):
    """A data, result or policy file that cannot be used as it is."""


class GuardError(SafepyramidError):
    """A guard, prompt template or guard option that cannot be used as it is."""


class RunError(SafepyramidError):
    """An evaluation that cannot start, resume or go on."""
