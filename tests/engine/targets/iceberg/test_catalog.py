"""The Iceberg catalog under fault: a runner that is frozen inside a commit, or cut off."""

import json
import shutil
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from fsspec.implementations.local import LocalFileSystem
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.config.server_limits import LOCK_SECONDS, build_limits
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.object_store import ObjectStore
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.engine.targets.iceberg.catalog import (
    load_existing,
    open_catalog,
    remove_snapshots,
)
from logdriven_dagster.engine.targets.iceberg.renaming import rename_table
from logdriven_dagster.engine.targets.iceberg.table import (
    IcebergTable,
    choose_table_folder,
    table_folder,
)
from logdriven_dagster.engine.targets.iceberg.transactions import CachedTransaction
from logdriven_dagster.engine.targets.store import StoreContext
from logdriven_dagster.errors import StepError, TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import WindowRun
from tests.builders import day
from tests.engine.laboratory import TABLE
from tests.patience import PATIENCE, within

STEP = {"step": "load", "sql": "SELECT 1 AS v", "target": {"type": "iceberg"}}


def project_at(folder: Path, **settings: Any) -> Project:
    (folder / "tables").mkdir()
    table = {"table": "ods.t", "steps": [STEP], **TABLE}
    (folder / "tables" / "t.yaml").write_text(yaml.safe_dump(table))
    (folder / "logdriven.yaml").write_text(yaml.safe_dump({"project": "lab", **settings}))
    return load_project(folder)


@pytest.fixture(params=["postgres_url", "mariadb_url"])
def project(request: Any, tmp_path: Path, monkeypatch: Any) -> Project:
    """Its catalog is on a server that ends transactions which are idle for a second."""
    brief = partial(build_limits, idle=1, lock=3)
    monkeypatch.setattr("logdriven_dagster.engine.targets.iceberg.catalog.build_limits", brief)
    url = request.getfixturevalue(request.param)
    project = project_at(tmp_path, catalog=url.render_as_string(hide_password=False))
    create_table(project)
    return project


def create_table(project: Project) -> None:
    catalog = open_catalog(project)
    catalog.create_namespace_if_not_exists("ods")
    location = choose_table_folder(project, "ods.t").location
    catalog.create_table(("ods", "t"), Schema(NestedField(1, "v", LongType())), location)
    catalog.engine.dispose()


class Careless(LocalFileSystem):
    """A store that overwrites existing files, whatever a request says."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        file = Path(self._strip_protocol(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(value)


def test_a_rename_needs_no_conditional_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project = project_at(tmp_path)
    create_table(project)
    location = table_folder(project, "ods.t").location
    store = ObjectStore(lambda: Careless(skip_instance_cache=True))
    monkeypatch.setattr(
        "logdriven_dagster.engine.targets.iceberg.table.folder_at",
        lambda place, _: Folder(store, place),
    )
    rename_table(project, "ods.t", "ods.new")
    assert choose_table_folder(project, "ods.t").location == f"{location}.2"


def test_tables_that_had_one_name_in_turn_have_folders_of_their_own(tmp_path: Path):
    project = project_at(tmp_path)
    for name in ("ods.a", "ods.b", "ods.c"):
        create_table(project)
        rename_table(project, "ods.t", name)
    create_table(project)
    tables = [load_existing(open_catalog(project), ("ods", n)) for n in ("a", "b", "c", "t")]
    found = [table.location().rpartition("/")[2] for table in tables if table is not None]
    assert found == ["t", "t.2", "t.3", "t.4"]


def fence(project: Project, token: int) -> None:
    """What the successor of a dead attempt does first."""
    catalog = open_catalog(project)
    context: Any = StoreContext(project, None, lambda: catalog)  # type: ignore[arg-type]
    run = WindowRun(token, "ods.t", day(1), token).for_step("load")
    try:
        with step_errors():
            IcebergTable(context, "ods.t", project.table("ods.t").output).fence([run])  # type: ignore[arg-type]
    finally:
        catalog.engine.dispose()


class FrozenCommit:
    """A commit that stands still between its UPDATE and its COMMIT, in a thread."""

    def __init__(self, project: Project) -> None:
        self._catalog = open_catalog(project)
        self._holds, self._wakes = threading.Event(), threading.Event()
        self.failed: BaseException | None = None
        self._thread = threading.Thread(target=self._commit)
        self._thread.start()
        assert self._holds.wait(PATIENCE)

    def _commit(self) -> None:
        try:
            with self._catalog.engine.begin() as conn:
                conn.execute(sa.text("UPDATE iceberg_tables SET metadata_location = 'late'"))
                self._holds.set()
                self._wakes.wait(PATIENCE)
        except sa.exc.SQLAlchemyError as error:
            self.failed = error

    def wake(self) -> None:
        self._wakes.set()
        self._thread.join(PATIENCE)
        self._catalog.engine.dispose()


def location(project: Project) -> str:
    engine = sa.create_engine(project.catalog_url)
    with engine.connect() as conn:
        found = conn.scalar(sa.text("SELECT metadata_location FROM iceberg_tables"))
    engine.dispose()
    return str(found)


@pytest.mark.sampled
def test_a_commit_that_is_frozen_on_a_server_blocks_no_one_and_fails_when_it_wakes(project):
    frozen = FrozenCommit(project)
    with within(30):
        fence(project, 7)
    frozen.wake()
    assert frozen.failed is not None
    assert "late" not in location(project)


@pytest.mark.sampled
def test_a_foreign_lock_is_waited_for_with_a_limit_and_the_error_names_the_catalog(project):
    engine = sa.create_engine(project.catalog_url)
    with engine.begin() as conn:  # somebody's session, which has no limits
        conn.execute(sa.text("UPDATE iceberg_tables SET metadata_location = metadata_location"))
        with (
            within(60),
            pytest.raises(TransientStepError, match=r"the Iceberg catalog (my|postgre)sql"),
        ):
            fence(project, 7)
    engine.dispose()


@pytest.mark.usefixtures("long")
def test_sqlite_cannot_end_a_frozen_commit_and_the_error_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "logdriven_dagster.engine.targets.iceberg.catalog.build_limits",
        partial(build_limits, lock=1),
    )
    project = project_at(tmp_path)
    create_table(project)
    frozen = FrozenCommit(project)
    named = r"the Iceberg catalog sqlite:///.*catalog\.db: OperationalError: database is locked"
    with within(60), pytest.raises(TransientStepError, match=named):
        fence(project, 7)
    frozen.wake()
    assert location(project) == "late"


@pytest.mark.parametrize(
    "url", ["postgresql://u:hushword@127.0.0.1:1/x", "mysql://u:hushword@127.0.0.1:1/x"]
)
def test_a_catalog_that_cannot_be_reached_is_named_without_its_password(tmp_path, url, monkeypatch):
    monkeypatch.setenv("CATALOG_SECRET", "hushword")
    project = project_at(tmp_path, catalog=url.replace("hushword", "${env:CATALOG_SECRET}"))
    with pytest.raises(StepError, match=r"the Iceberg catalog .*u:\*\*\*@127\.0\.0\.1") as caught:
        open_in_step(project)
    assert "hushword" not in str(caught.value)


def open_in_step(project: Project) -> None:
    with step_errors():
        open_catalog(project)


def test_the_limits_keep_the_settings_of_the_url():
    given = sa.make_url(
        "postgresql+psycopg://u@h/x?options=-c%20lock_timeout%3D5s&connect_timeout=2"
    )
    arguments = build_limits(given)
    assert arguments["options"].endswith("lock_timeout=30s -c lock_timeout=5s")  # the last counts
    assert "connect_timeout" not in arguments


def test_on_sqlite_a_publication_waits_as_long_for_the_file_as_the_catalog(tmp_path: Path):
    project = project_at(tmp_path, connections={"lite": {"url": "sqlite:///lite.db"}})
    catalog = open_catalog(project)
    with database(project.connection("lite")) as target:
        for engine in (catalog.engine, target):
            with engine.connect() as conn:
                assert conn.exec_driver_sql("PRAGMA busy_timeout").scalar() == LOCK_SECONDS * 1000
    catalog.engine.dispose()


def test_a_host_whose_clock_is_behind_leaves_a_table_that_other_engines_read(
    tmp_path: Path,
) -> None:
    """Iceberg for Java refuses one whose history goes back by more than a minute."""
    project = project_at(tmp_path)
    create_table(project)
    fence(project, 1)
    an_hour_ahead(project)
    fence(project, 2)
    assert is_ordered(project)
    table = open_catalog(project).load_table(("ods", "t"))
    assert remove_snapshots(table, [table.metadata.snapshots[0].snapshot_id])
    assert is_ordered(project)


def test_the_metadata_of_a_transaction_is_computed_once_per_update(tmp_path: Path):
    project = project_at(tmp_path)
    create_table(project)
    table = open_catalog(project).load_table(("ods", "t"))
    with CachedTransaction(table) as transaction:
        known = transaction.table_metadata
        assert known == table.metadata
        assert transaction.table_metadata is known
        transaction.set_properties({"a": "1"})
        assert transaction.table_metadata.properties["a"] == "1"
        assert transaction.table_metadata is transaction.table_metadata
        assert "a" not in known.properties
    assert open_catalog(project).load_table(("ods", "t")).properties["a"] == "1"


def an_hour_ahead(project: Project) -> None:
    """The last commit becomes one of a host whose clock is an hour ahead."""
    table = open_catalog(project).load_table(("ods", "t"))
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    for instant in (metadata["snapshots"][-1], metadata["snapshot-log"][-1]):
        instant["timestamp-ms"] += 3_600_000
    metadata["last-updated-ms"] += 3_600_000
    path.write_text(json.dumps(metadata))


def is_ordered(project: Project) -> bool:
    """Whether the history of the table goes forward, its present instant included."""
    metadata = open_catalog(project).load_table(("ods", "t")).metadata
    return all(
        instants == sorted(instants)
        for log in (metadata.snapshot_log, metadata.metadata_log)
        for instants in [[*(entry.timestamp_ms for entry in log), metadata.last_updated_ms]]
    )


def test_a_copied_project_folder_does_not_change_the_tables_of_the_first_one(tmp_path: Path):
    (tmp_path / "first").mkdir()
    create_table(project_at(tmp_path / "first"))
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    copy = load_project(tmp_path / "copy")
    with pytest.raises(TerminalStepError, match=r"outside of the warehouse .* remove the copied"):
        load_existing(open_catalog(copy), ("ods", "t"))
    with pytest.raises(TerminalStepError, match=r"the table ods\.t of the Iceberg catalog is in"):
        list(find_garbage(copy, lambda _job, _token: False, timedelta(0)))


def test_a_project_folder_is_found_by_a_link_to_it(tmp_path: Path):
    (tmp_path / "first").mkdir()
    create_table(project_at(tmp_path / "first"))
    (tmp_path / "link").symlink_to(tmp_path / "first")
    linked = load_project(tmp_path / "link")
    assert load_existing(open_catalog(linked), ("ods", "t")) is not None
