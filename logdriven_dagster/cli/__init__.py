"""The `logdriven` command.

Start-up time matters: a command imports only the modules that it needs, when it needs them.
Printing a plan loads neither Spark nor Dagster.
"""

from logdriven_dagster.cli.app import main

__all__ = ["main"]
