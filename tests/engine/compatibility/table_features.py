"""Features of Iceberg and Delta tables that no program here writes: made as their formats say.

Each case makes a table, runs a window, and returns the rows and those that the table should have.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from logdriven_dagster.errors import LogdrivenError
from tests.builders import day
from tests.engine.compatibility.loading import OTHER, REFUSED
from tests.engine.foreign_tables import (
    append,
    append_file,
    data_files,
    deleted_rows,
    deleted_values,
    deletion_vector,
    edited,
    foreign_table,
)
from tests.engine.laboratory import Lab
from tests.plugins.delta.foreign_tables import add_foreign_rows, load_days, vector
from tests.plugins.delta.mapped_tables import COLUMNS, Table, hour, load, rows

Rows = list[tuple[Any, ...]]
Case = Callable[[Lab], tuple[Rows, Rows]]
IDS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))


def outcome(lab: Lab, case: Case) -> str:
    """Return whether a table has the rows that it should have, or the message that refuses it."""
    try:
        found, wanted = case(lab)
    except LogdrivenError as error:
        message = re.sub(rf"\S*{lab.root}[^\s,;:]*", "FILE", str(error).splitlines()[0])
        return f"{REFUSED}{message}"
    return "exact" if found == wanted else f"{OTHER}: {found} for {wanted}"


def iceberg(change: Callable[[Any], None]) -> Case:
    """Return a case whose table has three rows, and the change of another engine."""

    def case(lab: Lab) -> tuple[Rows, Rows]:
        table = foreign_table(lab, IDS)
        append(table, *({"id": n, "part": "a"} for n in (1, 2, 3)))
        change(table)
        return lab.rows("ods.t"), [(2, "a"), (3, "a")]

    return case


def delete_first(table: Any, apply: Callable[..., None]) -> None:
    (file,) = data_files(table)
    apply(table, file, [0])


def rename_the_key(table: Any) -> None:
    deleted_values(table, {"id": 1})
    with table.update_schema() as update:
        update.rename_column("id", "number")


def _in_version_3(table: Any, *fields: Mapping[str, Any]) -> None:
    schema = {"type": "struct", "schema-id": 0, "fields": [*fields]}
    edited(table, schemas=[schema], **{"format-version": 3, "next-row-id": 9})


def _column(number: int, name: str, kind: str, **given: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False, **given}


def _version_3(kind: str, held: pa.Array, wanted: str, **given: Any) -> Case:
    """Return a case of a table in format version 3 with a column `v`, shown as text."""

    def case(lab: Lab) -> tuple[Rows, Rows]:
        lab.settings["timezone"] = "UTC"
        table = foreign_table(lab, Schema(NestedField(1, "id", LongType())))
        one = pa.array([1], pa.int64())
        values = {"id": one} if given else {"id": one, "v": held}
        append_file(table, pa.table(values), {"id": 1, "v": 2})
        _in_version_3(table, _column(1, "id", "long"), _column(2, "v", kind, **given))
        frame = lab.engine.read("ods.t").selectExpr("id", "CAST(v AS STRING) AS v")
        return [tuple(row) for row in frame.collect()], [(1, wanted)]

    return case


def _row_lineage(lab: Lab) -> tuple[Rows, Rows]:
    table = foreign_table(lab, Schema(NestedField(1, "id", LongType())))
    one = pa.array([1], pa.int64())
    ids = {"id": 1, "_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
    append_file(table, pa.table(dict.fromkeys(ids, one)), ids)
    _in_version_3(table, _column(1, "id", "long"))
    return lab.rows("ods.t"), [(1,)]


def _nanos(number: int) -> pa.Array:
    return pa.array([number], pa.int64()).cast(pa.timestamp("ns"))


ICEBERG: dict[str, Case] = {
    "equality deletes": iceberg(lambda table: deleted_values(table, {"id": 1})),
    "equality deletes, key renamed afterwards": iceberg(rename_the_key),
    "equality deletes in an Avro file": iceberg(
        lambda table: deleted_values(table, {"id": 1}, file_format=FileFormat.AVRO)
    ),
    "equality deletes in an ORC file": iceberg(
        lambda table: deleted_values(table, {"id": 1}, file_format=FileFormat.ORC)
    ),
    "position deletes": iceberg(lambda table: delete_first(table, deleted_rows)),
    "deletion vectors (version 3)": iceberg(lambda table: delete_first(table, deletion_vector)),
    "default of an added column (version 3)": _version_3(
        "int", pa.nulls(1), "7", **{"initial-default": 7, "write-default": 7}
    ),
    "timestamp_ns (version 3)": _version_3(
        "timestamp_ns", _nanos(1000), "1970-01-01 00:00:00.000001"
    ),
    "variant (version 3)": _version_3("variant", pa.array([1]), ""),
    "row lineage (version 3)": _row_lineage,
}


def mapped_source(mode: str) -> Case:
    def case(lab: Lab) -> tuple[Rows, Rows]:
        lab.settings["timezone"] = "UTC"
        table = Table(lab.root / "mapped", mode, COLUMNS)
        table.add(7, hour(1), "x")
        source = {"type": "delta", "path": "mapped"}
        lab.table("ods.t", {"source": source, "target": {"type": "parquet"}}, depends_on=[])
        lab.run("ods.t", day(1))
        found = lab.engine.read("ods.t").selectExpr("b", "a", "place").collect()
        wanted = [(row["a"], row["b"], "x") for row in rows(7, hour(1), hour(1))]
        return sorted(map(tuple, found), key=repr), sorted(wanted, key=repr)

    return case


def mapped_target(mode: str) -> Case:
    def case(lab: Lab) -> tuple[Rows, Rows]:
        lab.settings["timezone"] = "UTC"
        columns = [each for each in COLUMNS if each["name"] != "place"]
        Table(lab.warehouse / "ods/t", mode, columns, partition="").add(1, hour(1))
        load(lab, 7)
        lab.run("ods.t", day(2))
        found = lab.engine.read("ods.t").selectExpr("b", "a").collect()
        return sorted(map(tuple, found), key=repr), [(1, -1), (7, -7), (None, 1)]

    return case


def foreign(*features: str, source: bool = False, **given: Any) -> Case:
    """Return a case whose table has a row of another engine, and gets those of a window."""

    def case(lab: Lab) -> tuple[Rows, Rows]:
        load_days(lab)
        add_foreign_rows(lab, *features, **given)
        first = [] if given.get("deletionVector") else [(0, 0)]
        if source:
            described = {"type": "delta", "path": str(lab.warehouse / "ods/t")}
            lab.table("ods.s", {"source": described, "target": {"type": "parquet"}})
            lab.run("ods.s", day(1))
            return lab.rows("ods.s"), first
        lab.run("ods.t", day(1))
        return lab.rows("ods.t"), [*first, (1, 1), (1, 2)]

    return case


def _both(name: str, *features: str, **given: Any) -> dict[str, Case]:
    return {
        f"{name}, source": foreign(*features, source=True, **given),
        f"{name}, target": foreign(*features, **given),
    }


_FEED = {"delta.enableChangeDataFeed": "true"}
_VECTORS = {"delta.enableDeletionVectors": "true"}
_GENERATED = {"metadata": {"delta.generationExpression": "v + 0"}}
DELTA: dict[str, Case] = {
    **{f"column mapping by {mode}, source": mapped_source(mode) for mode in ("name", "id")},
    **{f"column mapping by {mode}, target": mapped_target(mode) for mode in ("name", "id")},
    **_both(
        "deletion vectors",
        settings=_VECTORS,
        readers=("deletionVectors",),
        deletionVector=vector([0]),
    ),
    **_both("change data feed", "changeDataFeed", settings=_FEED),
    **_both("CHECK constraint", "checkConstraints", settings={"delta.constraints.c": "v < 9"}),
    "CHECK constraint that a row breaks, target": foreign(
        "checkConstraints", settings={"delta.constraints.c": "v < 2"}
    ),
    **_both("generated column", "generatedColumns", column=_GENERATED),
    **_both("append-only", "appendOnly", settings={"delta.appendOnly": "true"}),
    **_both("row tracking", "rowTracking", "domainMetadata"),
    **_both("v2 checkpoints", readers=("v2Checkpoint",)),
    **_both("type widening", readers=("typeWidening",)),
    **_both("clustering", "clustering", "domainMetadata"),
    **_both("in-commit timestamps", "inCommitTimestamp"),
    **_both("identity column", "identityColumns", column={"metadata": {"delta.identity.start": 1}}),
    **_both("catalog-managed commits", readers=("catalogManaged",)),
}
FEATURES = {"iceberg": ICEBERG, "delta": DELTA}
