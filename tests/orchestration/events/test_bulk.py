"""Events that are written together leave in Dagster's storage what single writes leave."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
import yaml
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterEvent,
    DagsterInstance,
    DagsterRun,
    EventLogEntry,
    OpExecutionContext,
    job,
    op,
)
from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy.engine import URL

from logdriven_dagster.orchestration.events.bulk import EventBatch
from logdriven_dagster.orchestration.events.records import past_entry, report_planned
from tests.servers import new_database

ORDERS, ITEMS = AssetKey(["ods", "orders"]), AssetKey(["ods", "items"])
NOON = datetime(2022, 1, 1, 12, tzinfo=timezone.utc)
TAGS = {"dagster/data_version": "7"}
UNTOLD = {"create_timestamp"}
"""What a database's clock says of a row."""


def past(event: Any, minutes: int, run: Any = None) -> EventLogEntry:
    return past_entry(event, NOON + timedelta(minutes=minutes), run)


def windows(run: Any = None) -> list[EventLogEntry]:
    """More than are written at once, of two assets in turn, with checks and observations."""
    entries = []
    for n in range(130):
        key, partition = (ORDERS, ITEMS)[n % 3 == 0], f"p{n:03}"
        tags = TAGS if n % 10 == 0 else None
        made = AssetMaterialization(key, partition=partition, metadata={"rows": n}, tags=tags)
        entries.append(past(made, n, run))
        if key == ORDERS:
            check = AssetCheckEvaluation(key, "positive", passed=n % 7 > 0, partition=partition)
            entries.append(past(check, n, run))
    seen = AssetObservation(ORDERS, partition="p001", description="seen")
    return [*entries, past(seen, 500, run)]


@pytest.fixture(params=["sqlite", "postgresql"])
def instances(
    request: Any, tmp_path: Path, server_urls: dict[str, URL]
) -> Iterator[tuple[DagsterInstance, DagsterInstance]]:
    with (
        instance_on(request.param, tmp_path / "single", server_urls) as single,
        instance_on(request.param, tmp_path / "bulk", server_urls) as bulk,
    ):
        yield single, bulk


@contextmanager
def instance_on(
    database: str, home: Path, server_urls: dict[str, URL]
) -> Iterator[DagsterInstance]:
    home.mkdir()
    if database == "sqlite":
        (home / "dagster.yaml").touch()
        with DagsterInstance.from_config(str(home)) as instance:
            yield instance
        return
    with new_database(server_urls["LOGDRIVEN_TEST_POSTGRES"]) as url:
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        storage = {"storage": {"postgres": {"postgres_url": plain}}}
        (home / "dagster.yaml").write_text(yaml.safe_dump(storage))
        with DagsterInstance.from_config(str(home)) as instance:
            yield instance


def singly(instance: DagsterInstance, entries: Sequence[EventLogEntry]) -> None:
    for entry in entries:
        instance.handle_new_event(entry)


def together(instance: DagsterInstance, entries: Sequence[EventLogEntry]) -> None:
    batch = EventBatch(instance)
    with batch.complete():
        for entry in entries:
            batch.add(entry)


def rows(instance: DagsterInstance, run_ids: Sequence[str] = ("",)) -> dict[str, list[Any]]:
    """All that the storage holds of events, assets, tags and checks."""
    storage: Any = instance.event_log_storage
    tables = ("event_logs", "asset_keys", "asset_event_tags", "asset_check_executions")
    with storage.index_connection() as conn:
        found = {name: _all(conn, name) for name in tables}
    for run_id in run_ids:
        with storage.run_connection(run_id) as conn:
            found[f"run {run_ids.index(run_id)}"] = _all(conn, "event_logs")
    return found


def _all(conn: Any, table: str) -> list[Any]:
    # An upsert of PostgreSQL uses a number up, also where the row is there.
    untold = UNTOLD | ({"id"} if table == "asset_keys" else set())
    found = conn.execute(sa.text(f"SELECT * FROM {table} ORDER BY id")).mappings()
    return [{k: v for k, v in row.items() if k not in untold} for row in found]


@pytest.fixture(params=[False, True], ids=["of no run", "of a run"])
def run(request: Any, instances: tuple[DagsterInstance, DagsterInstance]) -> Any:
    if not request.param:
        return None
    run = DagsterRun("catch_up", str(uuid4()))
    for instance in instances:
        instance.add_run(run)
    return run


@pytest.mark.sampled
def test_the_storage_holds_the_same_rows_in_the_same_order(
    instances: tuple[DagsterInstance, DagsterInstance], run: Any
) -> None:
    single, bulk = instances
    singly(single, windows(run))
    together(bulk, windows(run))
    run_id = run.run_id if run else ""
    assert rows(bulk, [run_id]) == rows(single, [run_id])
    ids = [row["id"] for row in rows(bulk)["event_logs"]]
    assert ids == sorted(set(ids))
    for key in (ORDERS, ITEMS):
        assert partition_states(bulk, key) == partition_states(single, key)


def partition_states(instance: DagsterInstance, key: AssetKey) -> list[Any]:
    """What Dagster says of an asset."""
    latest: Any = instance.get_latest_materialization_event(key)
    made = instance.fetch_materializations(key, limit=500).records
    return [
        instance.get_materialized_partitions(key),
        (latest.timestamp, latest.asset_materialization),
        [(each.storage_id, each.partition_key, each.timestamp) for each in made],
        instance.event_log_storage.get_latest_storage_id_by_partition(
            key, latest.dagster_event_type
        ),
    ]


@pytest.mark.sampled
def test_what_is_planned_between_two_batches_stays_between_them(
    instances: tuple[DagsterInstance, DagsterInstance], run: Any
) -> None:
    entries = windows(run)
    for instance, write in zip(instances, (singly, together), strict=True):
        write(instance, entries[:50])
        report_planned(instance, ORDERS, "p001", run, NOON)
        write(instance, entries[50:])
    single, bulk = instances
    assert rows(bulk) == rows(single)


@pytest.mark.sampled
def test_an_event_that_cannot_be_stored_raises_and_those_before_it_are_there(
    instances: tuple[DagsterInstance, DagsterInstance],
) -> None:
    for instance, write in zip(instances, (singly, together), strict=True):
        refuse(instance, "p007")
        with pytest.raises(sa.exc.DBAPIError):
            write(instance, windows())
    # A statement that failed has used up numbers of PostgreSQL's.
    single, bulk = ([row["event"] for row in rows(each)["event_logs"]] for each in instances)
    assert bulk == single
    checked = [rows(each)["asset_check_executions"] for each in instances]
    assert [[row["partition"] for row in each] for each in checked] == [
        ["p001", "p002", "p004", "p005"],
        ["p001", "p002", "p004", "p005"],
    ]


def refuse(instance: DagsterInstance, partition: str) -> None:
    """Let the database refuse a partition's events."""
    storage: Any = instance.event_log_storage
    with storage.index_connection() as conn:
        if conn.dialect.name == "sqlite":
            conn.execute(
                sa.text(
                    "CREATE TRIGGER refused BEFORE INSERT ON event_logs "
                    f"WHEN NEW.partition = '{partition}' "
                    "BEGIN SELECT RAISE(ABORT, 'refused'); END"
                )
            )
        else:
            refused = f"CHECK (partition IS DISTINCT FROM '{partition}')"
            conn.execute(sa.text(f"ALTER TABLE event_logs ADD CONSTRAINT refused {refused}"))


LogEvent = Callable[[OpExecutionContext, Any], None]


def logged(instance: DagsterInstance, log: LogEvent, end: Callable[[], None]) -> list[Any]:
    """What the log of a run holds whose step logs three windows."""

    @op
    def report(context: OpExecutionContext) -> None:
        for n in range(3):
            log(context, AssetMaterialization(ORDERS, partition=f"p{n}", metadata={"rows": n}))
            log(context, AssetCheckEvaluation(ORDERS, "positive", passed=True, partition=f"p{n}"))
        end()

    @job
    def reporting() -> None:
        report()

    result = reporting.execute_in_process(instance=instance)
    assert [each.partition for each in result.asset_materializations_for_node("report")] == [
        "p0",
        "p1",
        "p2",
    ]
    return [
        (each.step_key, each.job_name, each.level, each.user_message, _of_any_run(event))
        for each in instance.all_logs(result.run_id)
        if (event := each.dagster_event) and event.asset_key == ORDERS
    ]


def _of_any_run(event: DagsterEvent) -> DagsterEvent:
    tags = event.logging_tags or {}
    return event._replace(logging_tags={k: v for k, v in tags.items() if k != "run_id"})


@pytest.mark.sampled
def test_a_step_logs_what_it_would_log_event_by_event(
    instances: tuple[DagsterInstance, DagsterInstance],
) -> None:
    single, bulk = instances
    batch = EventBatch(bulk)
    together_logged = logged(bulk, batch.log, batch.write)
    assert together_logged == logged(single, OpExecutionContext.log_event, lambda: None)
    assert bulk.get_materialized_partitions(ORDERS) == {"p0", "p1", "p2"}


class OthersStorage(SqliteEventLogStorage):
    """A storage that is derived from Dagster's own."""

    stored = 0

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OthersStorage":
        return cls(inst_data=inst_data, **config_value)

    def store_event(self, event: EventLogEntry) -> None:
        type(self).stored += 1
        super().store_event(event)


@pytest.mark.usefixtures("long")
def test_a_storage_that_is_not_known_is_written_event_by_event(tmp_path: Path) -> None:
    given = {
        "event_log_storage": {
            "module": OthersStorage.__module__,
            "class": OthersStorage.__name__,
            "config": {"base_dir": str(tmp_path / "events")},
        }
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(given))
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        together(instance, windows())
        assert OthersStorage.stored == len(windows())


@pytest.mark.sampled
def test_each_listener_of_a_run_receives_each_event(
    instances: tuple[DagsterInstance, DagsterInstance],
) -> None:
    heard: list[EventLogEntry] = []
    instances[1].add_event_listener("", heard.append)
    together(instances[1], windows())
    assert heard == windows()
