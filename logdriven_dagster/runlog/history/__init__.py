"""Reading the run log, for planning and for display."""
