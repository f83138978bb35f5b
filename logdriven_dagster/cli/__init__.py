"""The `logdriven` command.

Start-up is part of its interface: a command imports only what it needs, when it needs it; neither
Spark nor Dagster is loaded to print a plan.
"""

from logdriven_dagster.cli.app import main

__all__ = ["main"]
