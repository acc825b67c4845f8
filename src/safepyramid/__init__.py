"""SafePyramid: does a guard follow the policy that it is given?

The names below load on first use, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Answer": "safepyramid.schema",
    "Case": "safepyramid.schema",
    "Level": "safepyramid.schema",
    "Prediction": "safepyramid.schema",
    "RuleType": "safepyramid.schema",
    "State": "safepyramid.schema",
    "Verdict": "safepyramid.schema",
    "load_benchmark": "safepyramid.dataset",
    "parse_policy": "safepyramid.policy",
    "parse_verdict": "safepyramid.answers",
    "parse_violated_rules": "safepyramid.answers",
    "resolve": "safepyramid.policy",
}

__all__ = [  # noqa: F822
    "Answer",
    "Case",
    "Level",
    "Prediction",
    "RuleType",
    "State",
    "Verdict",
    "__version__",
    "load_benchmark",
    "parse_policy",
    "parse_verdict",
    "parse_violated_rules",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'safepyramid' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
