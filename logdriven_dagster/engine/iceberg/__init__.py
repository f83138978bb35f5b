"""Iceberg table support that sources and targets share: names, types, and reading files."""
