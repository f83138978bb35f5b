"""Parquet and ORC files, which carry their types: reading footers, types and exact values."""
