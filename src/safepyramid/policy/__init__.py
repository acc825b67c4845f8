"""A policy's text: its rules, what they refer to, and which are violated in the end."""

from safepyramid.policy.parse import parse_policy, resolve

__all__ = ["parse_policy", "resolve"]
