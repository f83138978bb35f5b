"""Reports from the run log: the daily report with its page and drawings, and metrics."""
