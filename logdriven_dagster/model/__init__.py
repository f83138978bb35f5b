"""Immutable values shared by all layers: windows, periods, attempts, logs. Performs no I/O."""
