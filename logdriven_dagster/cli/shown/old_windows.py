"""Output of windows that older versions of their tables made."""

from collections.abc import Iterable

from logdriven_dagster.cli.shown.rendering import print_line
from logdriven_dagster.execution.definitions.old_windows import OldWindows


def print_old_windows(found: Iterable[OldWindows]) -> None:
    """Print a sentence for each table with windows by older versions."""
    for old in found:
        print_line(old.text)
