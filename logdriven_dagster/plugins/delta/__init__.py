"""Delta tables as sources and targets, which delta-rs reads and commits."""
