"""`safepyramid eval`: check, plan, try, run, resume, and say what came of it."""
