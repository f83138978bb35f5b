"""Rows of source files, counted once for each version of a file."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.model.source_rows import (
    ChangedFile,
    FileChange,
    FileRows,
    FileVersion,
    SourceRows,
)
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.schema.observations import source_file
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

Step: TypeAlias = tuple[str, str]
"""A table and one of its steps."""
_VERSIONS = select(
    source_file.c.job_name,
    source_file.c.step_id,
    source_file.c.path,
    source_file.c.file_size,
    source_file.c.changed_ns,
    source_file.c.modified_ns,
).where(match_project(source_file), among(source_file.c.job_name))
_UNCOUNTED = 0
"""The last change of a file whose present version is not counted: 0 minus the newest attempt."""
_MOST_FILES = 10_000
"""The number of files of a step that are kept, if each window has files of its own."""
_MOST_DIGESTS = 200_000
"""The number of digests in memory, of 0.2 KB each."""
_WRITTEN = 1_000
"""The number of rows in one statement."""


def record_files(conn: Connection, rows: SourceRows, *, all_anew: bool) -> list[ChangedFile]:
    """Record the files of a source; only changes are written, unless `all_anew`.

    Returns the files that changed, with their earlier and their new rows. Files are new if others
    of the source were recorded before with the same settings.
    """
    mine = _match_step(rows.table, rows.step_id)
    present = {_digest(file.version.path): file for file in rows.files}
    c = source_file.c
    found = conn.execute(select(c.path_digest, c.file_size, c.changed_ns).where(mine))
    known = {digest: (size, changed) for digest, size, changed in found}
    changed = [
        digest
        for digest, file in present.items()
        if all_anew or known.get(digest) != (file.version.size, file.version.changed)
    ]
    gone = [d for d in known if d not in present and (all_anew or not rows.is_partial)]
    replaced = [*gone, *(digest for digest in changed if digest in known)]
    earlier: dict[str, FileRows] = {}
    for part in split_into_chunks(replaced):
        former = mine & source_file.c.path_digest.in_(part)
        for row in conn.execute(select(source_file).where(former)):
            earlier[row.path_digest] = _parse_row(row)
        conn.execute(delete(source_file).where(former))
    for part in split_into_chunks(changed, _WRITTEN):
        values = [
            _convert_file(rows.table, rows.step_id, digest, present[digest]) for digest in part
        ]
        conn.execute(insert(source_file), values)
    if all_anew:  # the earlier times may be those of another column
        earlier = {d: replace(each, first=None, last=None) for d, each in earlier.items()}
        gone = []
    pairs = [(earlier.get(digest), present[digest]) for digest in changed]
    return [
        *(each for before, after in pairs for each in _compare(before, after, all_anew=all_anew)),
        *(ChangedFile(FileChange.GONE, earlier[digest]) for digest in gone if digest in earlier),
    ]


def record_window_files(
    conn: Connection, table: str, step_id: str, files: Collection[FileRows]
) -> list[ChangedFile]:
    """Record the files that a window has read, as far as they are not recorded.

    A version that several windows read gets the range of all of them. Returns the files that
    changed since other windows read them, and those that are new in a folder that others read.
    """
    present = {_digest(file.version.path): file for file in files}
    mine = _match_step(table, step_id)
    known: dict[str, FileRows] = {}
    for part in split_into_chunks(list(present)):
        query = select(source_file).where(mine, source_file.c.path_digest.in_(part))
        known |= {row.path_digest: _parse_row(row) for row in conn.execute(query)}
    merged = {digest: _merge(known.get(digest), file) for digest, file in present.items()}
    changed = [digest for digest, file in merged.items() if file != known.get(digest)]
    for part in split_into_chunks([digest for digest in changed if digest in known]):
        conn.execute(delete(source_file).where(mine, source_file.c.path_digest.in_(part)))
    for part in split_into_chunks(changed, _WRITTEN):
        values = [_convert_file(table, step_id, digest, merged[digest]) for digest in part]
        conn.execute(insert(source_file), values)
    found = []
    for digest in changed:
        before, after = known.get(digest), present[digest]
        folder = known.get(_digest(after.version.path.rpartition("/")[0]))
        if before is None and folder is not None:
            found.append(ChangedFile(FileChange.NEW, replace(folder, version=after.version)))
        elif before is not None and not _is_folder(after, present.values()):
            compared = _compare(before, after, all_anew=False)
            found += [each for each in compared if each.rows is before]
    _forget_oldest(conn, mine)
    return found


def _forget_oldest(conn: Connection, mine: ColumnElement[bool]) -> None:
    """Delete the files that changed first, if there are too many."""
    count = conn.execute(select(func.count()).select_from(source_file).where(mine)).scalar() or 0
    if count > _MOST_FILES + _WRITTEN:
        times = select(source_file.c.modified_ns).where(mine)
        newest_first = times.order_by(source_file.c.modified_ns.desc())
        last = conn.execute(newest_first.offset(_MOST_FILES).limit(1)).scalar()
        conn.execute(delete(source_file).where(mine, source_file.c.modified_ns <= last))


def _is_folder(file: FileRows, others: Iterable[FileRows]) -> bool:
    """Return True for a folder with some of the files, which changes with each new one."""
    start = f"{file.version.path}/"
    return any(each.version.path.startswith(start) for each in others)


def _merge(before: FileRows | None, after: FileRows) -> FileRows:
    """Return the file with the range of all windows that have read this version."""
    if before is None or not before.version.has_same_content(after.version):
        return after
    if before.first is None or after.first is None or before.version.changed <= _UNCOUNTED:
        return after
    bounds = [int(each) for each in (before.first, before.last or 0, after.first, after.last or 0)]
    return replace(after, first=min(bounds[0], bounds[2]), last=max(bounds[1], bounds[3]))


def _compare(before: FileRows | None, after: FileRows, *, all_anew: bool) -> Iterator[ChangedFile]:
    """Yield the earlier and the new rows of a file, if its content has changed."""
    if before is None:
        if not all_anew:
            yield ChangedFile(FileChange.NEW, after)
    elif before.version.changed <= _UNCOUNTED:  # its earlier rows are recorded
        is_same = before.version.has_same_content(after.version)
        yield ChangedFile(FileChange.CHANGED, after, -before.version.changed if is_same else None)
    elif not before.version.has_same_content(after.version):
        yield ChangedFile(FileChange.CHANGED, before)
        yield ChangedFile(FileChange.CHANGED, after)


def read_versions(
    conn: Connection, tables: Collection[str]
) -> Mapping[Step, Sequence[FileVersion]]:
    """Return the recorded versions of the files of each step of the tables."""
    found: dict[Step, list[FileVersion]] = defaultdict(list)
    for name, step_id, *version in conn.execute(_VERSIONS, {"names": tables}):
        found[name, step_id].append(FileVersion(*version))
    return found


def read_rows_of(
    conn: Connection, table: str, step_id: str, paths: Collection[str]
) -> Sequence[FileRows]:
    """Return the recorded rows of some files."""
    mine, found = _match_step(table, step_id), list[FileRows]()
    for part in split_into_chunks(sorted(map(_digest, paths))):
        query = select(source_file).where(mine, source_file.c.path_digest.in_(part))
        found += map(_parse_row, conn.execute(query))
    return found


def mark_uncounted(conn: Connection, table: str, step_id: str, version: FileVersion) -> bool:
    """Record that a file has a new version whose rows are not counted yet.

    Attempts that begin from now on read this version. Returns False if another process was first,
    or if this version is recorded already.
    """
    c = source_file.c
    mine = _match_step(table, step_id) & (c.path_digest == _digest(version.path))
    differs = (c.file_size != version.size) | (c.modified_ns != version.modified)
    newest = conn.execute(select(func.max(job_log.c.job_id)).where(match_project(job_log)))
    values = {
        "file_size": version.size,
        "modified_ns": version.modified,
        "changed_ns": _UNCOUNTED - (newest.scalar() or 0),
    }
    return bool(conn.execute(update(source_file).where(mine, differs).values(values)).rowcount)


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


def _convert_file(table: str, step_id: str, digest: str, file: FileRows) -> dict[str, Any]:
    path, size, changed, modified = file.version
    first, last = (None if each is None else json.dumps(each) for each in (file.first, file.last))
    return {
        "job_name": table,
        "step_id": step_id,
        "path_digest": digest,
        "path": path,
        "location": file.location,
        "file_size": size,
        "changed_ns": changed,
        "modified_ns": modified,
        "row_count": file.total,
        "null_count": file.unplaced,
        "before_count": file.before,
        "after_count": file.after,
        "first_position": first,
        "last_position": last,
        "footer": file.footer,
    }


def _parse_row(row: Row[Any]) -> FileRows:
    first, last = (
        None if each is None else json.loads(each)
        for each in (row.first_position, row.last_position)
    )
    version = FileVersion(row.path, row.file_size, row.changed_ns, row.modified_ns)
    counts = (row.row_count, row.null_count, row.before_count, row.after_count)
    return FileRows(row.location, version, *counts, first, last, row.footer)


@lru_cache(maxsize=_MOST_DIGESTS)
def _digest(path: str) -> str:
    return sha256(path.encode(errors="surrogateescape")).hexdigest()
