"""The two engines of a comparison, and what they answer."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from tests.plugins.sail.tables import Example

ROOT = Path(__file__).parents[3]
_NUMBERS = count()
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_REORDERING = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in ("ReorderAssociativeOperator", "ConstantFolding")
)


class SailError(Exception):
    """What Sail, or our gate before it, says against a query."""


@dataclass(frozen=True, slots=True)
class Sail:
    """A process with a session of Sail."""

    process: "subprocess.Popen[str]"
    folder: Path

    def rows(self, sql: str, tables: Mapping[str, Example]) -> pa.Table:
        """The rows of a query over these tables; SailError."""
        out = self.folder / f"{next(_NUMBERS)}.feather"
        named = {name: (each.location, each.ddl) for name, each in tables.items()}
        self._send({"sql": sql, "tables": named, "out": str(out)})
        if problem := self._heard()["error"]:
            raise SailError(problem)
        return feather.read_table(out)

    def _send(self, asked: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def _heard(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process of Sail has ended"
        return json.loads(line)

    @classmethod
    def started(cls, folder: Path) -> "Sail":
        """A session of Sail in a process of its own."""
        (folder / "logdriven.yaml").write_text(
            "project: sail\ntimezone: UTC\nspark: {engine: sail, master: 'local[2]'}\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.plugins.sail.worker", str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        sail = cls(process, folder)
        assert sail._heard() == {"ready": True}
        return sail

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


@dataclass(frozen=True, slots=True)
class Spark:
    """The oracle: a session of Spark as windows have it."""

    session: Any

    def rows(self, sql: str, tables: Mapping[str, Example]) -> pa.Table:
        """The rows of a query over these tables."""
        for name, each in tables.items():
            frame = self.session.read.schema(each.ddl).parquet(each.location)
            frame.createOrReplaceTempView(name)
        return self.session.sql(sql).toArrow()

    def rows_as_written(self, sql: str, tables: Mapping[str, Example]) -> pa.Table:
        """The same, in the order that is written: i * (i * 0) is not (i * i) * 0.

        And a constant is computed where a row needs it, not before.
        """
        self.session.conf.set(_EXCLUDED, _REORDERING)
        try:
            return self.rows(sql, tables)
        finally:
            self.session.conf.unset(_EXCLUDED)


def differences(
    spark: pa.Table, sail: pa.Table, *, key: Sequence[str] = ()
) -> list[tuple[str, Any, Any]]:
    """Columns that differ, each with the first row in which it does; order does not count."""
    names = spark.column_names
    if names != sail.column_names:
        return [("columns", names, sail.column_names)]
    found = []
    one, other = (_ordered(table, key) for table in (spark, sail))
    if len(one) != len(other):
        return [("rows", len(one), len(other))]
    for n, name in enumerate(names):
        kinds = tuple(str(table.schema.field(name).type) for table in (spark, sail))
        kinds = tuple(kind.replace("large_", "") for kind in kinds)
        if kinds[0] != kinds[1]:
            found.append((name, *kinds))
            continue
        for mine, theirs in zip(one, other, strict=True):
            if mine[n] != theirs[n]:
                found.append((name, mine, theirs[n]))
                break
    return found


def _ordered(table: pa.Table, key: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows as texts, so that NaN equals itself and -0.0 is not 0.0."""
    columns = [list(map(repr, column.to_pylist())) for column in table.columns]
    rows = list(zip(*columns, strict=True))
    places = [table.column_names.index(name) for name in key] or range(len(columns))
    return sorted(rows, key=lambda row: [row[n] for n in places])
