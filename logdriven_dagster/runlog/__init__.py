"""The run log: windows, attempts and their results, in SQLite, PostgreSQL, MariaDB or MySQL."""

from logdriven_dagster.runlog.store import RunLog

__all__ = ["RunLog"]
