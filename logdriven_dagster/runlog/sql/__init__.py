"""Shared parts of all queries of the run log: the database's clock, long lists, texts."""
