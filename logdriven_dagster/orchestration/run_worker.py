"""The process of a run: it loads what runs need, then waits to be told its run. See `launcher`."""

import sys
from contextlib import suppress
from importlib import import_module

from logdriven_dagster.private_files import guard_umask

_NEEDED = (
    "logdriven_dagster.orchestration.code_location",
    "logdriven_dagster.execution.opening",
    "pyspark.sql.connect.session",
)


def main() -> None:
    """Two lines on the standard input: the instance, and `ExecuteRunArgs` when there is a run."""
    guard_umask()
    from dagster import DagsterInstance
    from dagster._cli.api import api_cli
    from dagster._core.instance.ref import InstanceRef
    from dagster._serdes import deserialize_value

    for module in _NEEDED:
        with suppress(ImportError):
            import_module(module)
    if instance := sys.stdin.readline():
        with DagsterInstance.from_ref(deserialize_value(instance, InstanceRef)) as loaded:
            loaded.get_runs(limit=1)  # the modules of its storages, too
    if wanted := sys.stdin.readline():
        api_cli(["execute_run", wanted], prog_name="dagster api")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
