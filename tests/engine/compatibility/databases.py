"""Tables of databases whose columns others have declared: read, and written into."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.errors import LogdrivenError
from tests.builders import day
from tests.engine.compatibility.database_columns import (
    BEFORE_POSTGRESQL,
    INTO_MARIADB,
    INTO_POSTGRESQL,
    OF_MARIADB,
    OF_POSTGRESQL,
    Column,
    Target,
)
from tests.engine.compatibility.loading import OTHER, REFUSED, ZONE, failed, prepared
from tests.engine.compatibility.writers.manifest import Written, canonical
from tests.engine.laboratory import JOBS, Lab


@dataclass(frozen=True)
class Base:
    """An empty database of a server."""

    url: sa.URL

    @property
    def form(self) -> str:
        return {"mysql": "mariadb"}.get(name := self.url.get_backend_name(), name)

    @property
    def writer(self) -> str:
        return {"postgresql": "PostgreSQL", "mariadb": "MariaDB"}[self.form]

    @property
    def columns(self) -> Sequence[Column]:
        return OF_POSTGRESQL if self.form == "postgresql" else OF_MARIADB

    @property
    def targets(self) -> dict[str, Target]:
        """The cases of targets by their key in the table."""
        found = INTO_POSTGRESQL if self.form == "postgresql" else INTO_MARIADB
        return {f"into {self.form}: {self.writer} {each.name}": each for each in found}

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in a session in UTC that accepts zero dates; the rows of the last."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        first = "SET time_zone = '+00:00', sql_mode = ''"
        if self.form == "postgresql":
            first = "SET timezone = 'UTC'"
        with engine.begin() as conn:
            conn.exec_driver_sql(first)
            for each in statements:
                result = conn.exec_driver_sql(each.replace("%", "%%"))
            return [tuple(row) for row in result] if result.returns_rows else []

    def version(self) -> str:
        """Return the major version: patches differ between machines."""
        ((version,),) = self.run("SELECT version()")
        words = str(version).replace("PostgreSQL ", "").split(".")
        return words[0] if self.form == "postgresql" else ".".join(words[:2])

    def create(self, table: str, columns: Sequence[tuple[str, str]]) -> None:
        """Create a table of columns, each with its name and declaration, behind a column `n`."""
        null, suffix = ("", "") if self.form == "postgresql" else (" NULL", " CHARSET utf8mb4")
        declared = ", ".join(f"{name} {kind}{null}" for name, kind in columns)
        self.run(f"CREATE TABLE {table} (n INT, {declared}){suffix}")


def prepare(lab: Lab, url: sa.URL) -> Base:
    """Make a connection to the database, with the types that columns name."""
    base = Base(url)
    lab.settings["connections"] = {"db": {"url": url.render_as_string(hide_password=False)}}
    if base.form == "postgresql":
        base.run(*BEFORE_POSTGRESQL)
    return base


def plain_options(connection: Connection) -> dict[str, str]:
    """Return the options by which plain Spark reaches a database."""
    reached = {"url": connection.jdbc_url, "driver": connection.driver}
    credentials = {"user", "password"} & connection.options.keys()
    return reached | {name: connection.options[name] for name in credentials}


def columns_of(base: Base, together: Sequence[str] = ()) -> Iterator[Written]:
    """Create tables of each type; those whose keys are in `together` share one."""
    version = base.version()
    keys = {f"{base.form}: {base.writer} {each.name}": each for each in base.columns}
    shared = [each for key, each in keys.items() if key in together]
    single = [[each] for key, each in keys.items() if key not in together]
    for group in [*single, *([shared] if shared else [])]:
        table = f"s{next(JOBS)}"
        names = ["v"] if len(group) == 1 else [f"v{n}" for n in range(len(group))]
        base.create(table, [(name, each.declared) for name, each in zip(names, group, strict=True)])
        rows = [[*each.values, *[("NULL", None)] * (3 - len(each.values))] for each in group]
        for n in range(3):
            literals = ", ".join(values[n][0] for values in rows)
            base.run(f"INSERT INTO {table} VALUES ({n}, {literals})")
        for name, each, pairs in zip(names, group, rows, strict=True):
            values = [value for _, value in pairs]
            place = base.writer, version, base.form, each.name, table, name, canonical(values)
            are_texts = all(isinstance(value, str | None) for value in values)
            yield Written(*place, are_texts, None, "", {})


def written_together(lab: Lab, base: Base, targets: Sequence[Target]) -> list[str]:
    """Write the values of targets into the columns of one table; what becomes of each."""
    table = f"t{next(JOBS)}"
    names = ["v"] if len(targets) == 1 else [f"v{n}" for n in range(len(targets))]
    base.create(table, [(name, each.declared) for name, each in zip(names, targets, strict=True)])
    lab.settings["timezone"] = ZONE
    target = {"type": "jdbc", "connection": "db", "table": table, "mode": "overwrite"}
    name = f"ods.{table}"
    lab.table(name, {"sql": _query(names, targets), "target": target})
    try:
        lab.run(name, day(1))
        return _held(base, table, names, targets)
    finally:
        (lab.root / "tables" / f"{name}.yaml").unlink()


def written_by_spark(session: SparkSession, lab: Lab, base: Base, target: Target) -> str:
    """Return what becomes of a value that plain Spark appends to a table."""
    table = f"t{next(JOBS)}"
    base.create(table, [("v", target.declared)])
    connection = lab.project.connection("db")
    options = plain_options(connection) | {"dbtable": table}
    try:
        frame = prepared(session).sql(_query(["v"], [target]))
        frame.write.format("jdbc").mode("append").options(**options).save()
    except (PySparkException, Py4JJavaError) as error:
        return failed(error)
    return _held(base, table, ["v"], [target])[0]


def target_outcome(lab: Lab, base: Base, target: Target) -> str:
    """Return what becomes of one value, which may be refused."""
    try:
        return written_together(lab, base, [target])[0]
    except LogdrivenError as error:
        message = re.sub(r"\bt\d+\b", "TABLE", str(error).splitlines()[0])
        return REFUSED + " ".join(message.split())


def _query(names: Sequence[str], targets: Sequence[Target]) -> str:
    values = [f"{each.expression} AS {name}" for name, each in zip(names, targets, strict=True)]
    return f"SELECT 0 AS n, {', '.join(values)}"


def _held(base: Base, table: str, names: Sequence[str], targets: Sequence[Target]) -> list[str]:
    """Compare the texts by which the database shows the columns with those of the values."""
    text = "{}::text" if base.form == "postgresql" else "CAST({} AS CHAR)"
    (found,) = base.run(f"SELECT {', '.join(text.format(name) for name in names)} FROM {table}")
    pairs = zip(found, targets, strict=True)
    return [
        "exact" if shown == each.shown else f"{OTHER}: `{str(shown)[:40]}` for `{each.shown}`"
        for shown, each in pairs
    ]
