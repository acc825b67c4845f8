"""A model's reply, read to an answer with a named state."""

from safepyramid.answers.parse import answer_from_reply, parse_verdict, parse_violated_rules

__all__ = ["answer_from_reply", "parse_verdict", "parse_violated_rules"]
