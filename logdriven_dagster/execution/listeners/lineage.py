"""Lineage of the queries of successful attempts, recorded after their end without affecting it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.sql.column_lineage import trace_lineage
from logdriven_dagster.config.sql.queries import list_queries, map_written_places
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.events import WindowEvent, WindowSucceeded
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.model.lineage import Container, Query, QueryLineage
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import lineage

_log = logging.getLogger(__name__)
_Columns: TypeAlias = Mapping[Container, tuple[str, ...]]
_TRIES = 3
"""The maximum number of tries: if two processes write the same query or node at once, the second
one finds it on its next try."""


@dataclass
class LineageRecorder:
    """Recorder of lineage, which it computes once per distinct query.

    Later attempts only record that they ran the query. Source: BDRE, lineage of queries by
    instance.
    """

    project: Project
    run_log: RunLog
    _known: dict[str, tuple[int, QueryLineage]] = field(default_factory=dict)

    def add_lineage(self, order: Order, events: Sequence[WindowEvent]) -> Iterator[WindowEvent]:
        """Yield the events of one pass with the lineage of the queries that its windows have run.

        If the lineage is unknown, the events have none, and a warning is logged. The windows are
        finished before this begins, so nothing here can change their outcome.
        """
        done = [event for event in events if isinstance(event, WindowSucceeded) and event.steps]
        found = self._record(order, done) if done else ()
        for event in events:
            yield replace(event, lineage=found) if isinstance(event, WindowSucceeded) else event

    def _record(self, order: Order, events: Sequence[WindowSucceeded]) -> tuple[QueryLineage, ...]:
        if not self.project.config.lineage or order.made_outside:
            return ()
        jobs = [event.attempt.job_id for event in events]
        try:
            found = self._find_lineage(order, events[0])
            queries_run = [query_id for query_id, _ in found]
            alone = len(jobs) == len(queries_run) == 1
            self.run_log.write(lambda conn: lineage.add_runs(conn, jobs, queries_run), alone=alone)
        except Exception as error:  # noqa: BLE001 - the window is done in any case
            reason = redact(f"{type(error).__name__}: {error}")
            _log.warning("%s job %s: lineage not recorded: %s", order.table.table, jobs[0], reason)
            return ()
        return tuple(item for _, item in found)

    def _find_lineage(self, order: Order, event: WindowSucceeded) -> list[tuple[int, QueryLineage]]:
        columns = {step.step_id: tuple(c.name for c in step.columns) for step in event.steps}
        writers = self._writers
        asked = list(list_queries(order.project, order.table, columns, order.parameters, writers))
        results = {query.result: query.columns for query in asked}
        return [self._resolve(query, results) for query in asked]

    def _resolve(self, query: Query, results: _Columns) -> tuple[int, QueryLineage]:
        digest = query.digest
        if digest not in self._known:
            known = self._find_stored(digest) or self._compute(digest, query, results)
            self._known[digest] = known
        return self._known[digest]

    def _find_stored(self, digest: str) -> tuple[int, QueryLineage] | None:
        def read(conn: Connection) -> dict[int, QueryLineage]:
            query_id = lineage.find(conn, digest)
            return {} if query_id is None else lineage.read(conn, [query_id])

        return next(iter(self.run_log.ask(read).items()), None)

    def _compute(self, digest: str, query: Query, results: _Columns) -> tuple[int, QueryLineage]:
        """Compute and store the lineage of a query, given the known columns of its inputs."""
        names = list(dict.fromkeys(query.names.values()))
        columns = self.run_log.ask(lambda conn: lineage.read_known_columns(conn, names))
        made = trace_lineage(query, {**columns, **results})
        made = replace(made, text=redact(made.text), absent=made.absent and redact(made.absent))
        if made.absent:
            _log.warning("%s.%s: lineage not recorded: %s", query.table, query.step_id, made.absent)
        for left in reversed(range(_TRIES)):
            try:
                with self.run_log.begin() as conn:
                    known = lineage.find(conn, digest)
                    return known or lineage.store(conn, digest, made), made
            except RunLogError:
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    @cached_property
    def _writers(self) -> dict[str, str]:
        return map_written_places(self.project)
