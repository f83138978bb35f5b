"""The process of a run: it loads the modules and waits for a request. See `launcher`."""

import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from logdriven_dagster.private_files import guard_umask

_NEEDED = (
    "logdriven_dagster.orchestration.code_location",
    "logdriven_dagster.execution.opening",
    "pyspark.sql.connect.session",
)


def main() -> None:
    """Read two lines from standard input: the instance, and later the request of a run."""
    guard_umask()
    from dagster import DagsterInstance, deserialize_value

    from logdriven_dagster.orchestration.dagster_internals import execute_run

    for module in _NEEDED:
        with suppress(ImportError):
            import_module(module)
    if instance := sys.stdin.readline():
        ref: Any = deserialize_value(instance)
        with DagsterInstance.from_ref(ref) as loaded:
            loaded.get_runs(limit=1)  # also loads the modules of its storages
    if wanted := sys.stdin.readline():
        execute_run(wanted)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
