"""Queries for values in text files that Spark's reader drops or changes without an error."""
