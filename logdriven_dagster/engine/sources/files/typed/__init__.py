"""Parquet and ORC files, which carry their types: what they hold, and how it is read exactly."""
