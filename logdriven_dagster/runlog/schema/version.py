"""Which schema the code expects, and where a log says which one it has."""

HEAD = "0008"
"""The newest migration; a test proves that it is."""

VERSION_TABLE = "logdriven_version"
"""Not Alembic's default name: the log may share a database with Dagster's own storage."""
