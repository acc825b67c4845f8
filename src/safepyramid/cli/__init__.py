"""The command line, one file a group of commands. Light: commands import what they need when called."""

from safepyramid.cli.main import main

__all__ = ["main"]
