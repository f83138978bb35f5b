"""Rows of source files, counted once for each version of a file."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Row, and_, delete, insert, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.source_rows import FileRows, SourceRows
from logdriven_dagster.runlog.schema.observations import source_file
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

Step: TypeAlias = tuple[str, str]
"""A table and one of its steps."""
_WRITTEN = 1_000
"""The number of rows in one statement."""


def record_files(conn: Connection, rows: SourceRows, *, all_anew: bool) -> None:
    """Record the files of a source; only changes are written, unless `all_anew`."""
    mine = _match_step(rows.table, rows.step_id)
    present = {_digest(file.version[0]): file for file in rows.files}
    known: dict[str, tuple[int, int]] = {}
    if all_anew:
        conn.execute(delete(source_file).where(mine))
    else:
        c = source_file.c
        found = conn.execute(select(c.path_digest, c.file_size, c.changed_ns).where(mine))
        known = {digest: (size, changed) for digest, size, changed in found}
    changed = [digest for digest, file in present.items() if known.get(digest) != file.version[1:]]
    gone = [digest for digest in known if digest not in present]
    for part in split_into_chunks([*gone, *(digest for digest in changed if digest in known)]):
        conn.execute(delete(source_file).where(mine, source_file.c.path_digest.in_(part)))
    for part in split_into_chunks(changed, _WRITTEN):
        values = [_convert_file(rows, digest, present[digest]) for digest in part]
        conn.execute(insert(source_file), values)


def read_files(conn: Connection, tables: Collection[str]) -> Mapping[Step, tuple[FileRows, ...]]:
    """Return the recorded files of each step of the tables."""
    found: dict[Step, list[FileRows]] = defaultdict(list)
    for names in split_into_chunks(sorted(tables), LOOKED_UP):
        query = select(source_file).where(
            match_project(source_file), source_file.c.job_name.in_(names)
        )
        for row in conn.execute(query):
            found[row.job_name, row.step_id].append(_parse_row(row))
    return {step: tuple(files) for step, files in found.items()}


def _match_step(table: str, step_id: str) -> ColumnElement[bool]:
    c = source_file.c
    return and_(match_project(source_file), c.job_name == table, c.step_id == step_id)


def _convert_file(rows: SourceRows, digest: str, file: FileRows) -> dict[str, Any]:
    path, size, changed = file.version
    first, last = (None if each is None else json.dumps(each) for each in (file.first, file.last))
    return {
        "job_name": rows.table,
        "step_id": rows.step_id,
        "path_digest": digest,
        "path": path,
        "location": file.location,
        "file_size": size,
        "changed_ns": changed,
        "row_count": file.total,
        "null_count": file.unplaced,
        "before_count": file.before,
        "after_count": file.after,
        "first_position": first,
        "last_position": last,
    }


def _parse_row(row: Row[Any]) -> FileRows:
    first, last = (
        None if each is None else json.loads(each)
        for each in (row.first_position, row.last_position)
    )
    version = (row.path, row.file_size, row.changed_ns)
    counts = (row.row_count, row.null_count, row.before_count, row.after_count)
    return FileRows(row.location, version, *counts, first, last)


def _digest(path: str) -> str:
    return sha256(path.encode(errors="surrogateescape")).hexdigest()
