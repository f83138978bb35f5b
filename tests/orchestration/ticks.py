"""Ticks of the mirror, and runs that work elsewhere meanwhile."""

from typing import Any

from dagster import (
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    Definitions,
    build_sensor_context,
)
from dagster._core.utils import make_new_run_id

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Counts,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.orchestration.sensors.mirror import MIRROR
from tests.builders import at, claimed, day, end_step, finish
from tests.orchestration.world import World

ELSEWHERE = Owner("elsewhere", 1, 2)


def claim(
    world: World, n: int, owner: Owner = ELSEWHERE, trigger: Trigger = Trigger.PENDING
) -> Attempt:
    wanted = Claim(
        *("ods.events", day(n), 1440, "time_window", "world", trigger, owner),
        now=at("2022-02-01"),
        steps=("load",),
        definition="d",
    )
    return open_runner(world.project).run_log.write(lambda conn: claimed(conn, wanted))


COUNTS = Counts(4, 3, 3, 0)


def end(
    world: World, attempt: Attempt, status: Status = Status.SUCCESS, counts: Counts = COUNTS
) -> None:
    error = None if status is Status.SUCCESS else "broken"
    outcome = StepOutcome(status, counts, "csv", "iceberg", error=error)

    def work(conn: Any) -> None:
        end_step(conn, attempt.job_id, "load", outcome)
        finish(conn, attempt, AttemptOutcome(status, published_nothing=True))

    open_runner(world.project).run_log.write(work)


def tick(world: World, cursor: str | None = None, definitions: Definitions | None = None) -> str:
    definition = (definitions or world.definitions).resolve_sensor_def(MIRROR)
    result: Any = definition(build_sensor_context(world.instance, cursor=cursor))
    return str(result.cursor)


def working_run(instance: DagsterInstance) -> DagsterRun:
    run = DagsterRun("catch_up", make_new_run_id(), status=DagsterRunStatus.STARTED)
    return instance.add_run(run)
