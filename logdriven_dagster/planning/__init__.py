"""Planning of windows: pure functions of the tables, the run log and the current time."""
