"""Incremental types, one module each (time, keys, offsets, batches), and `freshness`."""
