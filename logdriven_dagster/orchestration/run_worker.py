"""The process of a run: it loads what runs need, then waits to be told its run. See `launcher`."""

import sys
from contextlib import suppress
from importlib import import_module

_NEEDED = (
    "logdriven_dagster.orchestration.code_location",
    "logdriven_dagster.execution.local",
    "pyspark.sql.connect.session",
)


def main() -> None:
    """Run what is told by `ExecuteRunArgs` on the standard input; nothing if that is empty."""
    from dagster._cli.api import api_cli

    for module in _NEEDED:
        with suppress(ImportError):
            import_module(module)
    if wanted := sys.stdin.read():
        api_cli(["execute_run", wanted], prog_name="dagster api")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
