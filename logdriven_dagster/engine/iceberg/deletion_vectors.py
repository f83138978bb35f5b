"""Deletion vectors of Iceberg format 3, which list the deleted rows of files.

PyIceberg reads them without verifying their checksums; this module verifies them.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_MAGIC = bytes.fromhex("d1d33964")


def read_deleted_positions(table: "Table", files: "Iterable[DataFile]") -> Any:
    """Return the deleted rows in a table's vectors as an Arrow table of `file_path` and `pos`.

    Raises TerminalStepError if a vector is damaged.
    """
    import pyarrow as pa

    parts = []
    for file in files:
        for path, positions in _vectors(table, file):
            names = pa.array([path] * len(positions), pa.string())
            parts.append(pa.table({"file_path": names, "pos": positions}))
    return pa.concat_tables(parts)


def _vectors(table: "Table", file: "DataFile") -> "Iterator[tuple[str, Any]]":
    import pyarrow as pa
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    with table.io.new_input(file.file_path).open() as opened:
        content = opened.read()
    try:
        puffin = PuffinFile(content)
        vectors = deletion_vectors_from_puffin_file(puffin)
    except (ValueError, LookupError) as error:
        raise _build_damage_error(table, file, str(error).partition("\n")[0]) from None
    for blob, vector in zip(puffin.footer.blobs, vectors, strict=True):
        rows = vector.to_vector().cast(pa.int64())
        if problem := _problem(puffin.get_blob_payload(blob)):
            raise _build_damage_error(table, file, problem)
        if int(blob.properties.get("cardinality", len(rows))) != len(rows):
            raise _build_damage_error(table, file, "its number of rows differs from its header")
        yield vector.referenced_data_file, rows


def _problem(blob: bytes) -> str | None:
    length = int.from_bytes(blob[:4], "big")
    inner, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if inner[:4] != _MAGIC:
        return "it is not a deletion vector"
    return None if crc32(inner).to_bytes(4, "big") == checksum else "its checksum is wrong"


def _build_damage_error(table: "Table", file: "DataFile", problem: str) -> TerminalStepError:
    return TerminalStepError(
        f"{name_of_table(table)}: the deletion vectors in {file.file_path} cannot be read: "
        f"{problem}; restore the file, or compact the table with the engine that wrote it"
    )
