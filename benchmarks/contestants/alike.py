"""The others once more, with the JVM options that ours starts with and that they leave to users."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.contestants import dbt, plain, sqlmesh
from benchmarks.tasks import Command, Contestant, Task
from logdriven_dagster.engine.spark.settings import JVM_OPTIONS


def _command(task: Task, command: Callable[[Task], Command]) -> Command:
    told = command(task)
    options = " ".join(JVM_OPTIONS)
    return replace(told, variables={**told.variables, "JDK_JAVA_OPTIONS": options})


def _alike(contestant: Contestant) -> Contestant:
    command = partial(_command, command=contestant.command)
    return replace(contestant, label=f"{contestant.label}, our JVM options", command=command)


CONTESTANTS = {
    f"{name}-alike": _alike(contestant)
    for module in (plain, sqlmesh, dbt)
    for name, contestant in module.CONTESTANTS.items()
}
