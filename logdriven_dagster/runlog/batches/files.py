"""The registry of files: each version once, in the batch that delivers it to its consumers.

Source: BDRE, RegisterFile, BatchEnqueuer and GetFiles.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import timezone
from typing import Any, TypeAlias

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import FileKnownError, LifeCycleError
from logdriven_dagster.model.batches import Route
from logdriven_dagster.model.files import FoundFile, RegisteredFile
from logdriven_dagster.runlog.batches.offering import (
    make_batches,
    queue,
    queued_before,
)
from logdriven_dagster.runlog.schema.attempts import batch, batch_archive, batch_queue, file
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.projects import of_project

Version: TypeAlias = tuple[str, str]
"""The key of a version of a file: the digest of its path, and its hash."""


def register_file(conn: Connection, found: FoundFile, batch_id: int | None = None) -> int:
    """Add a version of a file to a batch, or to a new one, and return the number of the batch.

    A known path with another hash is a new version. Raises FileKnownError if this version is
    registered already, and LifeCycleError 114 if there is no such batch.
    """
    known = _known(conn, [found])
    if known:
        (number,) = known.values()
        raise FileKnownError(f"{found.location} already exists, in batch {number}")
    if batch_id is None:
        (batch_id,) = make_batches(conn, [None], "file")
    elif not _has_batch(conn, batch_id):
        raise LifeCycleError(
            114, f"batch {batch_id} does not exist; leave it out to create a new one"
        )
    try:
        conn.execute(insert(file), [_row(found, batch_id)])
    except IntegrityError:
        raise FileKnownError(f"{found.location} was registered by another process") from None
    return batch_id


def enqueue_files(
    conn: Connection, route: Route, found: Iterable[FoundFile], marking: str
) -> list[int]:
    """Register files and queue a batch for each, oldest first; return the numbers of the batches.

    A version that is registered but was never queued for this consumer is queued in its existing
    batch; one that was queued is left out. Two concurrent callers queue a file once.
    """
    while True:
        new = unknown_files(conn, route, found)
        savepoint = conn.begin_nested()
        try:
            numbers = _enqueue(conn, route, new, marking)
            savepoint.commit()
            return numbers
        except IntegrityError:  # after a deadlock there is no savepoint: the transaction fails
            savepoint.rollback()
            found = new  # another caller has just committed some of them: check again


def unknown_files(conn: Connection, route: Route, found: Iterable[FoundFile]) -> list[FoundFile]:
    """Return the files of a listing that were never queued for this consumer, oldest first."""
    wanted = {_version(item): item for item in found}
    registered = _known(conn, wanted.values())
    queued = queued_before(conn, route, registered.values())
    for version, number in registered.items():
        if number in queued:
            del wanted[version]
    return sorted(wanted.values(), key=lambda item: (item.created, item.server, item.path))


def consumed_files(conn: Connection, route: Route, found: Iterable[FoundFile]) -> list[FoundFile]:
    """Return the files of a listing whose rows this consumer has loaded."""
    wanted = {_version(item): item for item in found}
    registered = _known(conn, wanted.values())
    done = queued_before(conn, route, registered.values(), [batch_archive])
    return [item for version, item in wanted.items() if registered.get(version) in done]


def files_of_batches(conn: Connection, batch_ids: Sequence[int]) -> list[RegisteredFile]:
    """Return the files of some batches, by batch."""
    found: list[RegisteredFile] = []
    for part in chunks(sorted(set(batch_ids))):
        query = select(file).where(of_project(file), file.c.batch_id.in_(part))
        rows = conn.execute(query.order_by(file.c.batch_id, file.c.file_id))
        found += map(_registered, rows)
    return found


def files_between(conn: Connection, min_batch: int, max_batch: int) -> list[RegisteredFile]:
    """Return the files of a consumer's batches between two batches, both included.

    Raises LifeCycleError 114 if one of the two was never queued, 113 if no consumer had both.
    """
    both = _consumers(conn, min_batch) & _consumers(conn, max_batch)
    if not both:
        raise LifeCycleError(
            113, f"batch {min_batch} and batch {max_batch} are not consumed by the same step"
        )
    numbers: set[int] = set()
    for rows in (batch_queue, batch_archive):
        for table, step in both:
            query = select(rows.c.source_batch_id).where(
                of_project(rows),
                rows.c.job_name == table,
                rows.c.step_id == step,
                rows.c.source_batch_id.between(min_batch, max_batch),
            )
            numbers |= set(conn.execute(query).scalars())
    return files_of_batches(conn, list(numbers))


def _enqueue(conn: Connection, route: Route, new: Sequence[FoundFile], marking: str) -> list[int]:
    known = _known(conn, new)
    unregistered = [item for item in new if _version(item) not in known]
    made = make_batches(conn, [None] * len(unregistered), "file")
    if unregistered:
        rows = [_row(item, number) for item, number in zip(unregistered, made, strict=True)]
        conn.execute(insert(file), rows)
    registered = {_version(item): n for item, n in zip(unregistered, made, strict=True)} | known
    # A batch may hold several files, and is queued once.
    numbers = list(dict.fromkeys(registered[_version(item)] for item in new))
    queue(conn, route, [_queue_row(number, marking) for number in numbers])
    return numbers


def _has_batch(conn: Connection, number: int) -> bool:
    mine = of_project(batch) & (batch.c.batch_id == number)
    return conn.execute(select(batch.c.batch_id).where(mine)).first() is not None


def _consumers(conn: Connection, number: int) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for rows in (batch_queue, batch_archive):
        query = select(rows.c.job_name, rows.c.step_id).where(
            of_project(rows), rows.c.source_batch_id == number
        )
        found |= {(table, step) for table, step in conn.execute(query)}
    if not found:
        raise LifeCycleError(114, f"batch {number} is not queued for any step")
    return found


def _known(conn: Connection, found: Collection[FoundFile]) -> dict[Version, int]:
    """Return the batches of registered versions, by version."""
    wanted = {_version(item) for item in found}
    known: dict[Version, int] = {}
    for part in chunks(sorted({digest for digest, _ in wanted})):
        query = select(file.c.path_digest, file.c.file_hash, file.c.batch_id)
        mine = of_project(file) & file.c.path_digest.in_(part)
        for digest, content, number in conn.execute(query.where(mine)):
            if (digest, content) in wanted:
                known[digest, content] = number
    return known


def _version(found: FoundFile) -> Version:
    place = f"{found.server}\0{found.path}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(place).hexdigest(), found.hash


def _row(found: FoundFile, number: int) -> dict[str, Any]:
    digest, content = _version(found)
    return {
        "batch_id": number,
        "server": found.server,
        "path": found.path,
        "path_digest": digest,
        "file_size": found.size,
        "file_hash": content,
        "creation_ts": found.created.astimezone(timezone.utc).replace(tzinfo=None),
    }


def _queue_row(number: int, marking: str) -> dict[str, Any]:
    fields = ("source_job_id", "window_start", "window_end")
    return {"source_batch_id": number, "batch_marking": marking, **dict.fromkeys(fields)}


def _registered(row: Row[Any]) -> RegisteredFile:
    created = row.creation_ts.replace(tzinfo=timezone.utc)
    return RegisteredFile(row.server, row.path, row.file_size, row.file_hash, created, row.batch_id)
