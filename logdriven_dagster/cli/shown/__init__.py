"""Output of results on a terminal and as JSON."""
