"""What a run said of each case: read, written, scored."""
