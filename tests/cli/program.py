"""The command as a program of its own."""

import sys

PROGRAM = [sys.executable, "-c", "from logdriven_dagster.cli import main; main()"]
