"""Iceberg tables as other engines leave them: renamed columns, delete files, older formats."""

import json
from collections.abc import Sequence
from datetime import date
from itertools import count
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.io.pyarrow import (
    _dataframe_to_data_files,
    parquet_file_to_data_file,
    schema_to_pyarrow,
)
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap

from tests.engine.laboratory import Lab

EPOCH = date(1970, 1, 1)
TARGET = {"type": "iceberg", "existing_rows": "keep"}


def foreign_table(lab: Lab, schema: Any, *, name: str = "ods.t", **given: Any) -> Any:
    """A new table of PyIceberg, which a table of the project has as its target."""
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": TARGET})
    catalog = lab.engine._open_catalog()
    parts = name.split(".")[:-1]
    for number in range(len(parts)):
        catalog.create_namespace_if_not_exists(".".join(parts[: number + 1]))
    return catalog.create_table(name, schema, **given)


def arrow_schema(table: Any) -> pa.Schema:
    return table.schema().as_arrow()


def append(table: Any, *rows: dict[str, Any]) -> None:
    """Rows in a file of PyIceberg, which holds field ids."""
    table.append(pa.Table.from_pylist(list(rows), arrow_schema(table)))


def add_file(table: Any, rows: pa.Table, name: str) -> None:
    """Rows in a file without field ids, as a migration from Hive adds it."""
    table.add_files([put(table, f"hive/{name}", in_parquet(rows))])


def append_file(table: Any, rows: pa.Table, ids: dict[str, int]) -> None:
    """Rows in a file with field ids, of types that PyIceberg does not write."""
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in rows.schema
    ]
    content = in_parquet(rows.cast(pa.schema(fields)))
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=put(table, _unique("rows.parquet"), content),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=len(content),
    )
    made.spec_id = 0
    with (
        table.refresh().transaction() as transaction,
        transaction.update_snapshot().fast_append() as update,
    ):
        update.append_data_file(made)


def in_parquet(rows: pa.Table) -> bytes:
    """A Parquet file without field ids."""
    parquet.write_table(rows, file := pa.BufferOutputStream())
    return file.getvalue().to_pybytes()  # type: ignore[no-any-return]


def put(table: Any, name: str, content: bytes) -> str:
    """Put a file into the table's folder, wherever that is; its location."""
    place = f"{table.location()}/{name}"
    with table.io.new_output(place).create(overwrite=True) as file:
        file.write(content)
    return place


def from_hive(
    table: Any, rows: dict[str, Any], *partition: Any, claimed: Sequence[int] = ()
) -> None:
    """Rows in a file without field ids that lacks the columns which it is partitioned by.

    The table's metadata claim that the file holds more columns, as after a file was written anew.
    """
    mapping = {"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()}
    path = put(table, _unique("hive x+y%.parquet"), in_parquet(pa.table(rows)))
    file = parquet_file_to_data_file(table.io, table.metadata, path)
    days = [(each - EPOCH).days if isinstance(each, date) else each for each in partition]
    file._data[3] = Record(*days)
    file._data[6] |= dict.fromkeys(claimed, 40)
    with table.refresh().transaction() as transaction:
        transaction.set_properties(mapping)
        with transaction.update_snapshot().fast_append() as update:
            update.append_data_file(file)


def data_files(table: Any) -> list[DataFile]:
    """The table's data files, in the order of their smallest row numbers where they have some."""
    manifests = table.refresh().current_snapshot().manifests(table.io)
    data = [each for each in manifests if each.content == ManifestContent.DATA]
    files = [entry.data_file for each in data for entry in each.fetch_manifest_entry(table.io)]
    return sorted(files, key=lambda file: (sorted(file.lower_bounds.items()), file.file_path))


def deleted_rows(table: Any, file: DataFile, positions: Sequence[int]) -> None:
    """Delete rows by a position delete file, as Spark's merge-on-read does."""
    rows = pa.table({"file_path": [file.file_path] * len(positions), "pos": list(positions)})
    _commit(table, _deletes(table, file, in_parquet(rows), rows=len(positions)))


def deletion_vector(table: Any, file: DataFile, positions: Sequence[int]) -> None:
    """Delete rows by a deletion vector in a Puffin file, as engines of format version 3 do."""
    bitmap = BitMap(positions).serialize()
    vector = bytes.fromhex("d1d33964") + (1).to_bytes(8, "little") + bytes(4) + bitmap
    blob = len(vector).to_bytes(4, "big") + vector + crc32(vector).to_bytes(4, "big")
    described = {
        "type": "deletion-vector-v1",
        "fields": [],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": len(blob),
        "properties": {"referenced-data-file": file.file_path, "cardinality": str(len(positions))},
    }
    footer = json.dumps({"blobs": [described], "properties": {}}).encode()
    size = len(footer).to_bytes(4, "little")
    content = b"PFA1" + blob + b"PFA1" + footer + size + bytes(4) + b"PFA1"
    form = FileFormat.PUFFIN
    _commit(table, _deletes(table, file, content, rows=len(positions), file_format=form))


def deleted_values(
    table: Any,
    *rows: dict[str, Any],
    schema: Schema | None = None,
    inside: DataFile | None = None,
    upserted: Sequence[dict[str, Any]] = (),
    columns: Sequence[str] = (),
    **given: Any,
) -> None:
    """Delete rows by the values of their key, as Flink does; the rows name the columns of the key.

    `inside` is a file of the partition, None for the spec without one. `upserted` are new rows of
    the same commit. `columns` are more columns in the file.
    """
    schema = schema or table.schema()
    held = schema.select(*rows[0], *columns)
    ids = [schema.find_field(name).field_id for name in rows[0] if name not in columns]
    if any("." in name for name in rows[0]):  # a nested field of a struct
        rows = tuple({n.split(".")[0]: {n.split(".")[1]: v} for n, v in r.items()} for r in rows)
    file = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(list(rows), schema_to_pyarrow(held)), file)
    made = _deletes(
        table,
        inside,
        file.getvalue().to_pybytes(),
        rows=len(rows),
        **{"content": DataFileContent.EQUALITY_DELETES, "equality_ids": ids, **given},
    )
    _commit(table, made, upserted)


def _unique(name: str) -> str:
    return f"data/{next(_NUMBERS)}-{name}"


_NUMBERS = count()


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    deletes: Sequence[DataFile] = ()

    def _manifests(self) -> list[Any]:
        spec = self.spec(self.deletes[0].spec_id)
        output, codec = self.new_manifest_output(), self._compression
        with _Deletes(spec, self.schema(), output, self._snapshot_id, codec) as writer:
            for file in self.deletes:
                added = ManifestEntryStatus.ADDED
                writer.add(ManifestEntry.from_args(status=added, data_file=file))
        return [*super()._manifests(), writer.to_manifest_file()]

    def _summary(self, snapshot_properties: Any = None) -> Any:
        summary = super()._summary(snapshot_properties or {})
        summary["total-delete-files"] = str(int(summary["total-delete-files"] or 0) + 1)
        return summary


def _deletes(
    table: Any, file: DataFile | None, written: bytes, *, rows: int, **given: Any
) -> DataFile:
    kind = {"content": DataFileContent.POSITION_DELETES, "file_format": FileFormat.PARQUET}
    made = DataFile.from_args(
        file_path=put(table, _unique("deletes"), written),
        partition=Record(*(file.partition._data if file else ())),
        record_count=rows,
        file_size_in_bytes=len(written),
        **kind | given,
    )
    made.spec_id = file.spec_id if file else 0
    return made


def _commit(table: Any, deletes: DataFile, upserted: Sequence[dict[str, Any]] = ()) -> None:
    with table.refresh().transaction() as transaction:
        update = transaction.update_snapshot().fast_append()
        producer = _AppendDeletes(update._operation, transaction, table.io)
        producer.deletes = [deletes]
        if upserted:
            rows = pa.Table.from_pylist(list(upserted), arrow_schema(table))
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                producer.append_data_file(file)
        producer.commit()
    table.refresh()


def edited(table: Any, **changed: Any) -> None:
    """Change a table's metadata file, as a newer engine would have written it."""
    place = table.refresh().metadata_location
    with table.io.new_input(place).open() as file:
        metadata = json.loads(file.read()) | changed
    with table.io.new_output(place).create(overwrite=True) as file:
        file.write(json.dumps(metadata).encode())


def as_pyiceberg_reads(table: Any) -> list[tuple[Any, ...]]:
    """All rows in order, read by an engine that is not ours."""
    rows = table.refresh().scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)
