"""Spark Connect sessions, which a server runs for this process."""
