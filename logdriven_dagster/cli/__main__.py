"""Entry point of `python -m logdriven_dagster.cli`."""

from logdriven_dagster.cli import main

main()
