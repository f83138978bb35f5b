"""Listeners of windows: the registry, JSON log lines, and the lineage of queries."""
