"""What the log says as a whole: the daily report with its page and drawings, and metrics."""
