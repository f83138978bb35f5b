"""Maintenance jobs: SQL statements and Python functions."""
