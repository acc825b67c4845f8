"""A report on runs as a folder of static pages. `build.py` makes it."""
