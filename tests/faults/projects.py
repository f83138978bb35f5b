"""Small projects whose every row is known, and their data read without Spark."""

import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.targets.files.pointers import Pointers
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.catching_up.restating import list_with_downstream, restate
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.runlog.definitions.rows import Author
from tests.builders import UTC
from tests.faults.stores import Stores

SETTINGS = """
    project: faults
    lease: 2 s
    run_log: "{run_log}"
    {catalog}
    connections: {{db: {{url: "{database}"}}}}
    defaults:
      period: 1 day
      default_start: 2022-01-01
      end: {end}
      retries: 1
      batch_size: {batch_size}
    spark:
      master: local[1]
      config:
        spark.driver.memory: 1g
        spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""
_SOURCE = """
            source:
              type: csv
              path: data/numbers.csv
              header: true
              columns: "day DATE, n INT"
              window_column: day"""
LAKE = {
    "numbers": f"""
        table: ods.numbers
        steps:
          - step: load{_SOURCE}
            target: {{type: iceberg}}
    """,
    "twice": """
        table: dwd.twice
        depends_on: [ods.numbers]
        steps:
          - step: first
            sql: SELECT day, n, n * 2 AS twice FROM ods.numbers
            target: {type: iceberg, name: dwd.first}
          - step: second
            sql: SELECT day, twice FROM first
            target: {type: parquet}
    """,
    "sums": """
        table: dws.sums
        depends_on: [dwd.twice]
        steps:
          - step: add
            sql: SELECT day, sum(twice) AS total FROM dwd.twice GROUP BY day
            target: {type: iceberg, mode: append}
    """,
}
DATABASE = {
    "state": f"""
        table: ods.state
        steps:
          - step: load{_SOURCE}
            sql: SELECT n % 5 AS id, day, n FROM source
            target: {{type: jdbc, connection: db, table: state, mode: upsert, key: [id]}}
    """,
    "history": f"""
        table: ods.history
        depends_on: [ods.state]
        steps:
          - step: load{_SOURCE}
            target: {{type: jdbc, connection: db, table: history}}
    """,
}
NOW = datetime(2030, 1, 1, tzinfo=UTC)
_FIRST = date(2022, 1, 1)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Scenario:
    """A project in a folder, and what it must look like in the end."""

    name: str
    folder: Path
    days: int
    has_sql_catalog: bool = True
    factor: int = 2
    """The factor in the query of the lake."""

    @property
    def is_changed(self) -> bool:
        """True if the query has changed since the first window."""
        return self.factor != 2

    @property
    def project(self) -> Project:
        return load_project(self.folder)

    @property
    def numbers(self) -> list[tuple[date, int]]:
        """Three rows a day."""
        days = [(_FIRST + timedelta(d), d) for d in range(self.days)]
        return [(day, (d + 1) * 10 + n) for day, d in days for n in (1, 2, 3)]

    def change_query(self) -> "Scenario":
        """Multiply by another number, and restate the windows before the change.

        Returns the scenario with what the tables must have in the end.
        """
        changed = replace(self, factor=self.factor + 1)
        path = self.folder / "tables/twice.yaml"
        path.write_text(path.read_text().replace(f"n * {self.factor}", f"n * {changed.factor}"))
        registered = register(self.folder)
        project, run_log = registered.project, registered.run_log
        tables = list_with_downstream(project, "dwd.twice")
        with suppress(UsageError):  # no window of the table has finished yet
            restate(project, run_log, tables, None, Author("ann", "another factor"))
        return changed

    def expected(self) -> dict[str, Rows]:
        """Target → its rows, in order."""
        if self.name == "database":
            state = {n % 5: (n % 5, day, n) for day, n in self.numbers}
            return {"state": sorted(state.values()), "history": list(self.numbers)}
        numbers, factor = self.numbers, self.factor
        totals = {d: sum(factor * n for day, n in numbers if day == d) for d, _ in numbers}
        return {
            "ods.numbers": list(self.numbers),
            "dwd.first": [(day, n, factor * n) for day, n in numbers],
            "dwd.twice": [(day, factor * n) for day, n in numbers],
            "dws.sums": list(totals.items()),
        }

    def expected_counts(self) -> dict[str, int]:
        """Step → rows written by the latest attempts, as the log must have them."""
        if self.name == "database":
            return {"load": 2 * len(self.numbers)}
        rows = len(self.numbers)
        return {"load": rows, "first": rows, "second": rows, "add": self.days}

    def actual(self) -> dict[str, Rows]:
        """The rows of the targets as they are."""
        read = self._lake() if self.name == "lake" else self._database()
        return {name: sorted(rows) for name, rows in read}

    def _lake(self) -> Iterator[tuple[str, Rows]]:
        from pyiceberg.exceptions import NoSuchTableError

        project = self.project
        catalog = open_catalog(project)
        for name in ("ods.numbers", "dwd.first", "dws.sums"):
            try:
                yield name, _tuples(catalog.load_table(identifier(name)).scan().to_arrow())
            except NoSuchTableError:
                continue
        target: Any = project.table("dwd.twice").output
        yield "dwd.twice", list(_pointed(target_folder(project, "dwd.twice", target), project.zone))

    def _database(self) -> Iterator[tuple[str, Rows]]:
        engine = sa.create_engine(self.project.connection("db").url)
        columns = {"state": "id, day, n", "history": "day, n"}
        with engine.connect() as conn:
            for name, listed in columns.items():
                if sa.inspect(engine).has_table(name):
                    found = conn.execute(sa.text(f"SELECT {listed} FROM {name}"))
                    yield name, [tuple(map(_plain, row)) for row in found]
        engine.dispose()


def _plain(value: Any) -> Any:
    """SQLite keeps dates as texts."""
    return date.fromisoformat(value[:10]) if isinstance(value, str) else value


def _tuples(table: Any) -> Rows:
    shown = [name for name in table.column_names if not name.startswith("_")]
    return [tuple(row.values()) for row in table.select(shown).to_pylist()]


def _pointed(folder: Folder, zone: ZoneInfo) -> Iterator[tuple[Any, ...]]:
    from pyarrow.parquet import read_table

    for pointer in Pointers(folder, zone).current().values():
        for name in pointer.files:
            place = folder.get_subfolder("data").get_subfolder(pointer.folder).get_subfolder(name)
            with place.storage.open(place.location) as file:
                yield from _tuples(read_table(file))


def make_scenario(
    name: str,
    folder: Path,
    days: int,
    server: str = "",
    target: str = "",
    *,
    stores: Stores | None = None,
    batch_size: str = "1",
) -> Scenario:
    """Write a project; its run log, catalog and target are SQLite files or one server's database.

    The target alone may be on a server. That may be `${env:FAULTS_URL}`, so that each runner has a
    way of its own to it. With `stores` warehouse and catalog are theirs.
    """
    scenario = Scenario(name, folder, days, has_sql_catalog=stores is None)
    catalog = f'catalog: "{server}"' if server else ""
    settings = SETTINGS.format(
        run_log=server or "sqlite:///run_log.db",
        catalog=catalog if stores is None else "",
        database=target or server or "sqlite:///target.db",
        end=_FIRST + timedelta(days),
        batch_size=batch_size,
    )
    settings = textwrap.dedent(settings).rstrip()
    if stores is not None:
        spark = "".join(f"\n    {name}: {value!r}" for name, value in stores.spark.items())
        settings += f"{spark}\n{stores.settings(folder.name)}"
    _write(folder / "logdriven.yaml", settings)
    for table, text in (LAKE if name == "lake" else DATABASE).items():
        _write(folder / f"tables/{table}.yaml", text)
    lines = [f"{day},{n}" for day, n in scenario.numbers]
    _write(folder / "data/numbers.csv", "\n".join(["day,n", *lines]))
    return scenario


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).strip() + "\n")
