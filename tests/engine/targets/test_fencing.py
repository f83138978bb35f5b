"""Publication under a fencing token: a runner that was shut out changes nothing. Checklist Y15."""

import json
from datetime import timedelta
from typing import Any

import pytest

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.engine import WindowSession
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.testing.conformance import WRITER, WindowConformance, WindowScene
from tests.builders import day
from tests.engine.laboratory import JOBS, Lab, held
from tests.needs import rarely

TARGETS = {
    "iceberg": {"type": "iceberg"},
    "iceberg append": {"type": "iceberg", "mode": "append"},
    "iceberg upsert": {"type": "iceberg", "mode": "upsert", "key": ["v"]},
    "iceberg overwrite": {"type": "iceberg", "mode": "overwrite"},
    "delta": {"type": "delta"},
    "delta append": {"type": "delta", "mode": "append"},
    "delta upsert": {"type": "delta", "mode": "upsert", "key": ["v"]},
    "parquet": {"type": "parquet"},
    "csv": {"type": "csv"},
    "parquet overwrite": {"type": "parquet", "mode": "overwrite"},
    "jdbc": {"type": "jdbc", "connection": "lite", "table": "t"},
    "jdbc upsert": {"type": "jdbc", "connection": "lite", "table": "t", "mode": "upsert"},
}
TARGETS["jdbc upsert"]["key"] = ["v"]  # type: ignore[assignment]
RARE = ("iceberg append", "iceberg overwrite", "delta append", "csv", "parquet overwrite")
PARAMETERS = [*(name for name in TARGETS if name not in RARE), *rarely(*RARE)]
IN_DATABASES = ("jdbc", "jdbc upsert")
COMMITTED = ("iceberg", "delta")
"""Types whose publications are commits to one log of the whole table."""
QUERY = "SELECT 1 AS v, '${writer}' AS who"


@pytest.fixture(params=PARAMETERS)
def fenced(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """A table that says who wrote its only row."""
    target = TARGETS[request.param]
    lab.table("ods.t", {"sql": QUERY, "target": target}, variables={WRITER: ""})
    return lab


@pytest.mark.sampled
class TestTargets(WindowConformance):
    """The conformance tests on each target, except for those that test_modes.py has in detail."""

    test_a_rerun_replaces_the_rows_of_its_window = None  # type: ignore[assignment]
    test_publishing_twice_leaves_the_same_rows = None  # type: ignore[assignment]

    @pytest.fixture
    def scene(self, fenced: Lab) -> WindowScene:
        # A table that is not there yet holds no fence; the lease does.
        committed = fenced.project.table("ods.t").output.type in COMMITTED
        return WindowScene(
            project=fenced.project,
            start=lambda: fenced.engine,
            writers=lambda: [row[1] for row in fenced.rows("ods.t")],
            fences_empty_table=not committed,
        )


def attempt(lab: Lab, who: str, **fields: Any) -> Any:
    return lab.session("ods.t", day(1), variables={WRITER: who}, **fields)


def stage(lab: Lab, session: WindowSession) -> Any:
    (staged,) = session.stage(lab.project.table("ods.t").steps[0])
    return staged


def lost() -> None:
    raise AttemptLostError("the lease is somebody else's")


# In a database the window's marker is locked then: servers end the frozen transaction.
@pytest.mark.sampled
@pytest.mark.parametrize(
    "fenced", [name for name in PARAMETERS if name not in IN_DATABASES], indirect=True
)
def test_frozen_between_the_last_look_and_the_switch_it_changes_nothing(fenced: Lab):
    """The successor does all its work while the zombie stands still after its `verify`."""
    fenced.run("ods.t", day(1), variables={WRITER: "first"})
    zombie_run = fenced.window_run("ods.t", day(1), variables={WRITER: "zombie"})
    awake = []

    def freeze() -> None:
        if awake:
            lost()  # the next look tells
        awake.append(True)
        with attempt(fenced, "successor") as successor:
            successor.fence()
            stage(fenced, successor)
            successor.publish("step_1", held)

    with fenced.engine.open_session([zombie_run]) as zombie:
        stage(fenced, zombie)
        if fenced.project.table("ods.t").output.type in COMMITTED:
            with pytest.raises(AttemptLostError):
                zombie.publish("step_1", freeze)
        else:
            zombie.publish("step_1", freeze)  # it writes a pointer that nobody looks at
    assert fenced.rows("ods.t") == [(1, "successor")]


@pytest.mark.sampled
@pytest.mark.parametrize("fenced", ["parquet", "iceberg upsert", "delta upsert"], indirect=True)
def test_what_a_log_names_by_its_path_is_taken_over_too(fenced: Lab):
    """So did those of before locations were URLs."""
    fenced.run("ods.t", day(1), variables={WRITER: "first"})
    step = fenced.project.table("ods.t").steps[0]
    with attempt(fenced, "dead") as session:
        staged = stage(fenced, session)
    state = json.loads(staged.state)
    state["rows"]["location"] = as_path(state["rows"]["location"])
    assert json.dumps(state) != staged.state
    with attempt(fenced, "successor") as session:
        session.fence()
        assert session.restore(step, [json.dumps(state)]) is not None
        session.publish("step_1", held)
    assert fenced.rows("ods.t") == [(1, "dead")]


@pytest.mark.sampled
def test_files_published_during_a_search_for_garbage_are_kept(fenced: Lab):
    with attempt(fenced, "slow") as session:
        stage(fenced, session)
        asked = []

        def publish_meanwhile(job_id: int, _location: str) -> bool:
            if not asked:
                session.publish("step_1", held)
            asked.append(job_id)
            return False

        for item in find_garbage(fenced.project, publish_meanwhile, timedelta(seconds=-60)):
            item.remove()
    assert asked
    assert fenced.rows("ods.t") == [(1, "slow")]


@pytest.mark.sampled
def test_garbage_is_neither_read_nor_needed(fenced: Lab):
    now = timedelta(seconds=-60)  # everything is old enough
    fenced.run("ods.t", day(1), variables={WRITER: "first"})
    fenced.run("ods.t", day(1), variables={WRITER: "second"})
    with attempt(fenced, "dead") as session:
        needed = next(JOBS) - 1
        stage(fenced, session)
    kept = list(find_garbage(fenced.project, lambda job_id, _: job_id == needed, now))
    assert not any(f"{needed}-" in item.location for item in kept)
    found = list(find_garbage(fenced.project, lambda *_: False, now))
    assert len(found) > len(kept)
    before = fenced.rows("ods.t")
    for item in found:
        item.remove()
    assert list(find_garbage(fenced.project, lambda *_: False, now)) == []
    assert fenced.rows("ods.t") == before == [(1, "second")]
    fenced.run("ods.t", day(1), variables={WRITER: "third"})
    assert fenced.rows("ods.t") == [(1, "third")]
