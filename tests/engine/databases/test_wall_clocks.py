"""Instants and wall times of databases, by the clocks of the project, which go back and forward."""

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import find_wall_bound
from tests.engine.laboratory import Lab

BERLIN = "Europe/Berlin"
BACK = {"period": 60, "default_start": "2022-10-30"}
"""Hours over the night in which Berlin's clocks go back from 3 to 2, in windows 2 and 3."""
WALL = {"sqlite": "DATETIME", "postgresql": "timestamp", "mariadb": "DATETIME(6)"}
INSTANT = {"postgresql": "timestamptz", "mariadb": "TIMESTAMP(6) NULL"}


class Database:
    """A database whose sessions are far from the project's zone, and a target or source in it."""

    def __init__(self, lab: Lab, url: sa.URL) -> None:
        self.lab, self.url = lab, url
        self.kind = {"mysql": "mariadb"}.get(name := url.get_backend_name(), name)
        lab.settings["connections"] = {"db": {"url": url.render_as_string(hide_password=False)}}
        if self.kind == "postgresql":
            self.sql(f"ALTER DATABASE {url.database} SET timezone TO 'America/New_York'")

    def sql(self, statement: str) -> list[Any]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            result = conn.exec_driver_sql(statement)
            return [row[0] for row in result] if result.returns_rows else []

    def texts(self) -> list[str]:
        """The wall times of the table, as the database shows them."""
        kind = "CHAR" if self.kind == "mariadb" else "TEXT"
        return self.sql(f"SELECT SUBSTR(CAST(at AS {kind}), 1, 19) FROM t ORDER BY 1")

    def write(self, n: int, *instants: str, zone: str = BERLIN) -> None:
        """Run a window of an hour that writes these instants."""
        self.lab.settings["timezone"] = zone
        target = {"type": "jdbc", "connection": "db", "table": "t", "window_column": "at"}
        times = ", ".join(f"TIMESTAMP'{instant}'" for instant in instants)
        sql = f"SELECT explode(CAST(array({times}) AS ARRAY<TIMESTAMP>)) AS at"
        self.lab.table("ods.t", {"sql": sql, "target": target}, **BACK)
        self.lab.run("ods.t", self.lab.project.table("ods.t").grid.window(n))

    def read(self, n: int | None = None, *, zone: str = BERLIN, **source: Any) -> list[Any]:
        """The times that a source over the table reads, of one window or all, in UTC."""
        self.lab.settings["timezone"] = zone
        given = {"type": "jdbc", "connection": "db", "table": "t", **source}
        given |= {} if n is None else {"window_column": "at"}
        self.lab.table("ods.s", {"source": given, "target": {"type": "parquet"}}, **BACK)
        project = self.lab.project
        window = project.table("ods.s").grid.window(n or 0)
        run = self.lab.window_run("ods.s", window)
        (step,) = project.table("ods.s").steps
        assert step.source is not None
        frame = read_source(Reading(project, self.lab.spark, run, lambda: None), step.source)
        return sorted(row[0] for row in frame.selectExpr("CAST(at AS STRING)").collect())


@pytest.fixture
def db(lab: Lab, database_url: sa.URL) -> Database:
    return Database(lab, database_url)


@pytest.fixture(params=INSTANT)
def instants(request: pytest.FixtureRequest, lab: Lab) -> Database:
    """A database with a type for instants, and a table of one such column."""
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}[request.param]
    made = Database(lab, request.getfixturevalue(fixture))
    made.sql(f"CREATE TABLE t (at {INSTANT[made.kind]})")
    return made


def test_a_window_of_a_doubled_hour_has_bounds_on_the_wall():
    def hour(utc: int) -> datetime:
        instant = datetime(2022, 10, 30, utc, tzinfo=ZoneInfo("UTC"))
        return instant.astimezone(ZoneInfo(BERLIN))

    walls = [find_wall_bound(hour(utc)).hour for utc in (0, 1, 2)]
    assert walls == [2, 3, 3]  # the second hour has no wall times of its own
    half = datetime(2022, 4, 3, 1, 40, tzinfo=ZoneInfo("Australia/Lord_Howe"), fold=1)
    assert find_wall_bound(half) == datetime(2022, 4, 3, 2, 0)


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_a_column_without_a_zone_shows_the_clocks_of_the_project(db: Database, zone: str):
    db.sql(f"CREATE TABLE t (at {WALL[db.kind]})")
    for _ in range(2):
        db.write(23, "2022-10-30 23:30:00", zone=zone)
    assert db.texts() == ["2022-10-30 23:30:00"]  # once, although it ran twice
    utc = {"UTC": "2022-10-30 23:30:00", "Asia/Shanghai": "2022-10-30 15:30:00"}[zone]
    assert db.read(23, zone=zone) == db.read(zone=zone) == [utc]


@pytest.mark.sampled
@pytest.mark.parametrize("options", [{}, {"batchsize": 1000}], ids=["copied", "by the driver"])
def test_instants_before_1900_are_the_same_in_postgresql(
    lab: Lab, postgres_url: sa.URL, options: dict[str, Any]
):
    """Spark takes their offsets for whole hours, on its way into drivers and out of them."""
    db = Database(lab, postgres_url)
    lab.settings["timezone"] = BERLIN
    instants = ["0123-12-31 10:48:29.000132+00", "1800-12-31 23:59:59.999999+00"]
    values = ", ".join(f"(TIMESTAMP'{instant}')" for instant in instants)
    target = {"type": "jdbc", "connection": "db", "table": "old", "options": options}
    lab.table("ods.t", {"sql": f"SELECT * FROM VALUES {values} AS t(at)", "target": target})
    lab.run("ods.t", lab.project.table("ods.t").grid.window(3))
    found = db.sql("SELECT CAST(at AT TIME ZONE 'UTC' AS TEXT) || '+00' FROM old ORDER BY at")
    assert found == instants
    read = lab.engine.read("ods.t", None).selectExpr("unix_micros(at) AS n").orderBy("n").collect()
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    since = [datetime.fromisoformat(f"{instant}:00") - epoch for instant in instants]
    assert [row.n for row in read] == [each // timedelta(microseconds=1) for each in since]


@pytest.mark.sampled
def test_instants_stay_what_they_are_in_a_doubled_hour(instants: Database):
    utc = {n: f"2022-10-30 0{n - 2}:30:00" for n in (2, 3)}
    for n in (2, 3, 2, 3):
        instants.write(n, f"{utc[n]}Z")
    assert instants.read() == [utc[2], utc[3]]
    assert [instants.read(n) for n in (2, 3)] == [[utc[2]], [utc[3]]]
    instants.sql("INSERT INTO t VALUES (NULL)")
    assert [instants.read(n) for n in (1, 2, 4)] == [[], [utc[2]], []]


@pytest.mark.sampled
def test_an_instant_without_a_wall_time_of_its_own_is_refused(db: Database):
    db.sql(f"CREATE TABLE t (at {WALL[db.kind]})")
    db.write(2, "2022-10-30 00:30:00Z")
    with pytest.raises(
        TerminalStepError, match=r"column at: .* the second occurrence of a time that the clocks"
    ):
        db.write(3, "2022-10-30 01:30:00Z")
    db.write(3)
    assert db.texts() == ["2022-10-30 02:30:00"]  # of the hour before, and still there
    assert [db.read(n) for n in (2, 3)] == [["2022-10-30 00:30:00"], []]


@pytest.mark.sampled
def test_a_time_that_clocks_skip_is_refused_and_can_be_read_as_it_is(db: Database):
    db.sql(f"CREATE TABLE t (at {WALL[db.kind]})")
    db.sql("INSERT INTO t VALUES ('2022-03-27 02:30:00.123')")
    with pytest.raises(
        Exception, match=r"column at .*not a time.*that the clocks of Europe/Berlin show"
    ):
        db.read()
    for kind in ("TIMESTAMP_NTZ", "STRING"):
        (read,) = db.read(options={"customSchema": f"at {kind}"})
        assert read.rstrip("0") == "2022-03-27 02:30:00.123"


@pytest.mark.sampled
def test_wall_times_are_written_and_read_as_such(db: Database):
    """Also those that the clocks of the project skip, into a table of ours."""
    db.lab.settings["timezone"] = BERLIN
    sql = "SELECT explode(array('2022-03-27 02:30:00', '2022-10-30 02:30:00')) AS v"
    db.lab.table(
        "ods.t",
        {
            "sql": f"SELECT CAST(v AS TIMESTAMP_NTZ) AS at FROM ({sql})",
            "target": {"type": "jdbc", "connection": "db", "table": "t"},
        },
        **BACK,
    )
    db.lab.run("ods.t", db.lab.project.table("ods.t").grid.window(0))
    texts = ["2022-03-27 02:30:00", "2022-10-30 02:30:00"]
    assert db.texts() == texts
    assert db.read(options={"customSchema": "at TIMESTAMP_NTZ"}) == texts


@pytest.mark.sampled
def test_a_skipped_wall_time_does_not_become_an_instant(instants: Database):
    instants.lab.settings["timezone"] = BERLIN
    target = {"type": "jdbc", "connection": "db", "table": "t"}
    sql = "SELECT CAST('2022-03-27 02:30:00' AS TIMESTAMP_NTZ) AS at"
    instants.lab.table("ods.t", {"sql": sql, "target": target}, **BACK)
    with pytest.raises(
        TerminalStepError, match=f"column at: .* is skipped by the clocks of {BERLIN}"
    ):
        instants.lab.run("ods.t", instants.lab.project.table("ods.t").grid.window(0))
