"""The schema version that the code expects, and the place where a log records its own."""

HEAD = "0014"
"""The newest migration; a test verifies it."""

VERSION_TABLE = "logdriven_version"
"""Not Alembic's default name: the log may share a database with Dagster's own storage."""
