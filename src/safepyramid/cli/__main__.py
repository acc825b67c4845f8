"""`python -m safepyramid.cli`."""

from safepyramid.cli import main

main()
