"""The run log: what ran, what runs, how it ended. SQLite, PostgreSQL, MariaDB or MySQL."""

from logdriven_dagster.runlog.store import RunLog

__all__ = ["RunLog"]
