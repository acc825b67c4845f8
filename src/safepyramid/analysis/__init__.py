"""From logs and result files to tables, figures and comparisons."""
