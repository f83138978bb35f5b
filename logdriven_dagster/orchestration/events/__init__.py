"""Events of windows in Dagster's event log, and partitions that stay true to the run log."""
