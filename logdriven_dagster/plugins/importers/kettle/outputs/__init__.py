"""Outputs of transformations: their settings, and queries of rows that depend on their table."""
