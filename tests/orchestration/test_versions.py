"""Which version of a table a run in Dagster tries a failed window again with."""

from typing import Any

import pytest
from dagster import AssetKey, ExecuteInProcessResult
from sqlalchemy import text

from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.code_location import build_definitions
from logdriven_dagster.orchestration.jobs.run_tags import RETRY_VERSION_TAG
from tests.orchestration.world import ALONE, World, failure_of

pytestmark = pytest.mark.usefixtures("spark")

BROKEN: dict[str, Any] = ALONE | {
    "steps": [{**ALONE["steps"][0], "sql": "SELECT CAST('oops' AS INT) AS one"}]
}
TOLD = "version 1, as in its last attempt, not version 2, which is in force"


@pytest.fixture
def mended(world: World) -> World:
    """The first window failed in version 1; the file is mended by now."""
    world.write(BROKEN)
    assert not caught_up(world).success
    return world.write(ALONE)


def caught_up(world: World, **config: str) -> ExecuteInProcessResult:
    job = build_definitions(register(world.root).project).resolve_job_def("catch_up")
    given = {"now": "2022-01-02", **config}
    return job.execute_in_process(
        {"ops": {"catch_up": {"config": given}}}, instance=world.instance, raise_on_error=False
    )


def versions(world: World) -> list[tuple[int, str]]:
    with open_runner(world.project).run_log.read() as conn:
        rows = conn.execute(text("SELECT table_version, status FROM job_log ORDER BY job_id"))
        return [(row[0], row[1]) for row in rows]


@pytest.mark.usefixtures("long")
def test_a_catch_up_runs_the_mended_file_unless_recorded_is_asked_for(mended: World) -> None:
    result = caught_up(mended, retry_version="recorded")
    assert result.get_failed_step_keys()
    assert caught_up(mended).success
    assert versions(mended) == [(1, "FAILURE"), (1, "FAILURE"), (2, "SUCCESS")]


def test_a_materialization_takes_it_from_its_tag_and_states_what_ran(mended: World) -> None:
    job = build_definitions(register(mended.root).project).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=mended.instance,
        raise_on_error=False,
        asset_selection=[AssetKey(["ods", "alone"])],
        partition_key="2022-01-01",
        tags={RETRY_VERSION_TAG: "recorded"},
    )
    assert versions(mended)[1:] == [(1, "FAILURE")]
    [failed] = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failed.user_failure_data.metadata["definition"].value == TOLD


def test_a_word_that_is_none_of_both_is_refused(mended: World) -> None:
    expected = "retry_version: must be latest or recorded, not 'newest'"
    assert expected in failure_of(caught_up(mended, retry_version="newest"))
