"""Alembic's entry point: migrates over the connection that `migrating.upgrade` holds."""

from alembic import context

from logdriven_dagster.runlog.schema.version import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
)
context.run_migrations()
