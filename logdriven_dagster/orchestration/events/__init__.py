"""Events of windows in Dagster's event log, and partitions in agreement with the run log."""
