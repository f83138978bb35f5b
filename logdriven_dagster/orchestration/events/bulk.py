"""Events of many windows in Dagster's event log, written in bulk to known storages.

A single event costs Dagster connections and commits of its own, more than all other reporting of a
window. For Dagster's own SQLite and PostgreSQL storages, events are written in bulk by the parts
that their single writes consist of. Any other storage, and one derived from these, is written event
by event through the instance.

A failed bulk write changes nothing, and is tried again event by event. If that fails too, the error
is raised, and the mirror finds the windows (`unreported`). So the events are in SQLite's index,
which shows partitions, before they are in the log of their run, by which the mirror decides.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeAlias

from dagster import (
    AssetCheckEvaluation,
    AssetMaterialization,
    DagsterEventType,
    DagsterInstance,
    EventLogEntry,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from logdriven_dagster.orchestration.dagster_internals import (
    SqlEventLogStorage,
    SqlEventLogStorageTable,
    StepContext,
    has_listeners,
    storing_handler,
)
from logdriven_dagster.orchestration.events.records import forget_runless_evaluations

AT_ONCE = 100
"""The number of events that are written together: other writers wait for the database as long."""

Stored: TypeAlias = tuple[EventLogEntry, int]
"""An event and its number in the log."""


class EventBatch:
    """Materializations, observations and evaluated checks that are written together, in order.

    They are written when a batch is full, and when `write` is called.
    """

    def __init__(self, instance: DagsterInstance) -> None:
        self.instance = instance
        self._entries: list[EventLogEntry] = []

    @contextmanager
    def complete(self) -> Iterator[None]:
        """Write all events at the end of the block, also after an error."""
        try:
            yield
        finally:
            self.write()

    def add(self, entry: EventLogEntry) -> None:
        """Take an event; it may be written later."""
        self._entries.append(entry)
        if len(self._entries) >= AT_ONCE:
            self.write()

    def handle_new_event(self, event: EventLogEntry, **_batch: object) -> None:
        """Take an event in place of an instance, for Dagster's own log handler."""
        self.add(event)

    def log(self, context: StepContext, event: AssetMaterialization | AssetCheckEvaluation) -> None:
        """Log an event of a step as `log_event` does, except for its order in the event log.

        Its line goes to the console and to other loggers at once.
        """
        handler = storing_handler(context)
        if handler is None:
            context.log_event(event)  # type: ignore[arg-type]  # takes evaluations too
            return
        storing: Any = type(handler)
        held = _Held(storing(self))
        handler.addFilter(held)
        try:
            context.log_event(event)  # type: ignore[arg-type]
        finally:
            handler.removeFilter(held)

    def write(self) -> None:
        """Write the collected events."""
        entries, self._entries = self._entries, []
        if entries:
            forget_runless_evaluations(self.instance, entries)
            _write(self.instance, entries)


class _Held(logging.Filter):
    """A filter that passes this thread's records to another handler instead of its own."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler, self._thread = handler, threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self._handler.emit(record)
        return False


def _write(instance: DagsterInstance, entries: Sequence[EventLogEntry]) -> None:
    storage: Any = instance.event_log_storage
    in_bulk = _WRITERS.get(f"{type(storage).__module__}.{type(storage).__name__}")
    alone = len(entries) == 1 or type(instance) is not DagsterInstance
    if in_bulk is None or alone or has_listeners(instance, {each.run_id for each in entries}):
        _write_singly(instance, entries)
        return
    try:
        stored = in_bulk(storage, entries)
    except Exception as error:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise  # the outcome of the commit is unknown
        _write_singly(instance, entries)
        return
    stored()


def _write_singly(instance: DagsterInstance, entries: Sequence[EventLogEntry]) -> None:
    for entry in entries:
        instance.handle_new_event(entry)


def _to_sqlite(storage: SqlEventLogStorage, entries: Sequence[EventLogEntry]) -> Callable[[], None]:
    """Write the index of all runs in one transaction; return a function that writes their logs."""
    with storage.index_transaction() as conn:
        inserted: list[Any] = [conn.execute(storage.prepare_insert_event(e)) for e in entries]
        ids = [each.inserted_primary_key[0] for each in inserted]
        _note(_through(storage, conn), list(zip(entries, ids, strict=True)))

    def write_runs() -> None:
        for run_id, of_run in groupby(entries, lambda each: each.run_id):
            with storage.run_connection(run_id) as conn:
                conn.execute(storage.prepare_insert_event_batch(list(of_run)))

    return write_runs


def _to_postgres(
    storage: SqlEventLogStorage, entries: Sequence[EventLogEntry]
) -> Callable[[], None]:
    """Insert the events by one statement; return a function that updates the other tables.

    The statement is a transaction of its own. Otherwise readers that follow the log by the last
    event's number would miss these events, which have lower numbers, while others' are committed.
    """
    insert = storage.prepare_insert_event_batch(entries)
    with storage.index_connection() as conn:
        ids = sorted(conn.execute(insert.returning(SqlEventLogStorageTable.c.id)).scalars())
    stored = list(zip(entries, ids, strict=True))

    def note() -> None:
        try:
            with storage.index_transaction() as conn:
                _note(_through(storage, conn), stored)
        except Exception:  # noqa: BLE001 - each by itself, as after a single write
            _note(storage, stored)

    return note


def _note(storage: SqlEventLogStorage, stored: Sequence[Stored]) -> None:
    """Record events in the tables of tags, of assets and of checks.

    An asset's row has the values of the last event of each kind.
    """
    kind = DagsterEventType.ASSET_CHECK_EVALUATION
    of_assets = [(each, n) for each, n in stored if each.dagster_event_type is not kind]
    storage.store_asset_event_tags([each for each, _ in of_assets], [n for _, n in of_assets])
    last = {_asset_and_kind(each): n for each, n in of_assets}
    for each, n in of_assets:
        if last[_asset_and_kind(each)] == n:
            storage.store_asset_event(each, n)
    for each, n in stored:
        if each.dagster_event_type is kind:
            storage.store_asset_check_event(each, n)


def _asset_and_kind(entry: EventLogEntry) -> object:
    return entry.get_dagster_event().asset_key, entry.dagster_event_type


def _through(storage: SqlEventLogStorage, conn: Connection) -> SqlEventLogStorage:
    """Copy a storage so that it writes its index through a connection that is open already."""
    view: Any = copy(storage)
    view.index_connection = lambda: nullcontext(conn)
    return view  # type: ignore[no-any-return]


_WRITERS: Mapping[
    str, Callable[[SqlEventLogStorage, Sequence[EventLogEntry]], Callable[[], None]]
] = MappingProxyType(
    {
        "dagster._core.storage.event_log.sqlite.sqlite_event_log.SqliteEventLogStorage": _to_sqlite,
        "dagster_postgres.event_log.event_log.PostgresEventLogStorage": _to_postgres,
    }
)
"""Writers by the class of a storage; a derived class may store events in another way."""
