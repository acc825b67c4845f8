"""What Inspect finds in this package, and nothing else."""

from safepyramid.providers.entries import completions, local, openvino
from safepyramid.scorers import rule_set
from safepyramid.solvers import ask_policy, ask_rules
from safepyramid.tasks import per_policy, per_rule

__all__ = [
    "ask_policy",
    "ask_rules",
    "completions",
    "local",
    "openvino",
    "per_policy",
    "per_rule",
    "rule_set",
]
