"""OpenLineage events: one when an attempt begins, and one when it has ended.

They are sent to the destination of OpenLineage's own configuration, from a separate thread: an
attempt enqueues its events and goes on. Without such a configuration nothing is sent or imported.
"""

import atexit
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Any, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from logdriven_dagster._version import __version__
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.listeners import Interruption, WindowListener
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.lineage import (
    ColumnRef,
    Container,
    NodeType,
    QueryLineage,
    find_outer_origins,
)
from logdriven_dagster.model.runs import Published, Staged

logger = logging.getLogger(__name__)

_MOST_WAITING = 10_000
"""The maximum number of waiting events; further ones are dropped, with a warning."""
_PATIENCE = 5.0
"""Seconds that the end of a process waits for unsent events."""
_FILE = "openlineage.yml"

_Facets: TypeAlias = dict[str, Any]
_ENDS = (WindowSucceeded, WindowFailed, WindowLost, WindowSetBack)


@dataclass(frozen=True, slots=True)
class _Happened:
    attempt: Attempt
    event: WindowEvent | None
    """The outcome; None if the attempt began, or was interrupted."""
    state: str
    at: datetime


class OpenLineage(WindowListener):
    """Listener that sends OpenLineage events, if OpenLineage itself is configured to."""

    def on_claim(self, attempts: Sequence[Attempt]) -> None:
        """Send the start of attempts."""
        _put((attempt, None, "START") for attempt in attempts)

    def on_lineage(self, events: Sequence[WindowEvent]) -> None:
        """Send the outcomes of attempts."""
        _put((event.attempt, event, _state(event)) for event in events if isinstance(event, _ENDS))

    def on_interruption(self, attempts: Sequence[Attempt], interruption: Interruption) -> None:
        """Send the interruption of attempts."""
        _ = interruption
        _put((attempt, None, "ABORT") for attempt in attempts)


def _state(event: WindowEvent) -> str:
    if isinstance(event, WindowSucceeded):
        return "COMPLETE"
    return "FAIL" if isinstance(event, WindowFailed) else "ABORT"


def _put(happened: Iterable[tuple[Attempt, WindowEvent | None, str]]) -> None:
    sender = _sender()
    if sender is not None:
        now = datetime.now(timezone.utc)
        for attempt, event, state in happened:
            sender.put(_Happened(attempt, event, state, now))


@cache
def _sender() -> "_Sender | None":
    return _Sender() if _is_configured() else None


def _is_configured() -> bool:
    """Return True if OpenLineage's own environment variables or files configure a destination."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(name.startswith(("OPENLINEAGE__TRANSPORT", "OPENLINEAGE_URL")) for name in os.environ):
        return True
    given = os.environ.get("OPENLINEAGE_CONFIG")
    places = [Path(given)] if given else []
    places += [Path(_FILE), Path.home() / ".openlineage" / _FILE]
    return any(place.is_file() for place in places)


class _Sender:
    """Background sender of events, in order; any failure is a warning."""

    def __init__(self) -> None:
        self._waiting: Queue[_Happened | None] = Queue(_MOST_WAITING)
        self._thread = Thread(target=self._run, name="openlineage", daemon=True)
        self._told: set[str] = set()
        self._thread.start()
        atexit.register(self._finish)

    def put(self, happened: _Happened) -> None:
        try:
            self._waiting.put_nowait(happened)
        except Full:
            self._warn("its receiver is too slow: events are dropped")

    def _run(self) -> None:
        try:
            from openlineage.client import OpenLineageClient

            client = OpenLineageClient()
        except Exception as error:  # noqa: BLE001 - depends on its configuration
            missing = isinstance(error, ImportError)
            fix = "; run `pip install 'logdriven_dagster[openlineage]'`" if missing else ""
            self._warn(f"{type(error).__name__}: {error}{fix}")
            client = None
        while (happened := self._waiting.get()) is not None:
            if client is not None:
                try:
                    client.emit(_run_event(happened))
                except Exception as error:  # noqa: BLE001 - the window goes on in any case
                    self._warn(f"{type(error).__name__}: {error}")
        if client is not None:
            client.close(_PATIENCE)

    def _warn(self, problem: str) -> None:
        """Warn of each problem once: an unreachable receiver fails for every event."""
        if problem not in self._told:
            self._told.add(problem)
            logger.warning("openlineage_failed: %s", redact(in_brief(problem)))

    def _finish(self) -> None:
        """Send waiting events, within the time limit."""
        try:
            self._waiting.put_nowait(None)
        except Full:
            return
        self._thread.join(_PATIENCE)


def _run_event(happened: _Happened) -> Any:
    """Return the OpenLineage event."""
    from openlineage.client import event_v2 as ol
    from openlineage.client.facet_v2 import job_type_job

    attempt, claim = happened.attempt, happened.attempt.claim
    space = os.environ.get("OPENLINEAGE_NAMESPACE") or claim.project
    inputs, outputs = [], []
    if isinstance(happened.event, WindowSucceeded):
        inputs = list(_inputs(happened.event, space))
        outputs = list(_outputs(happened.event, space))
    kind = job_type_job.JobTypeJobFacet("BATCH", "LOGDRIVEN", "TABLE")
    key = f"{claim.project} {claim.owner} {claim.table} {attempt.job_id}"
    return ol.RunEvent(
        eventTime=happened.at.isoformat(),
        producer=f"urn:logdriven_dagster:{__version__}",
        eventType=ol.RunState[happened.state],
        run=ol.Run(str(uuid5(NAMESPACE_OID, key)), _of_run(happened)),
        job=ol.Job(space, claim.table, {"jobType": kind}),
        inputs=inputs,
        outputs=outputs,
    )


def _of_run(happened: _Happened) -> _Facets:
    from openlineage.client.facet_v2 import error_message_run, nominal_time_run
    from openlineage.client.generated.base import RunFacet

    attempt, claim, event = happened.attempt, happened.attempt.claim, happened.event
    start, end = attempt.window.bounds
    properties = {
        "jobId": attempt.job_id,
        "attemptNumber": attempt.attempt_number,
        "trigger": claim.trigger.value,
        "dataRangeStart": str(start),
        "dataRangeEnd": None if end is None else str(end),
        "tableVersion": claim.version,
        "jobRunId": claim.job_run_id,
        "dagsterRunId": claim.owner.dagster_run_id,
    }
    facets: _Facets = {"logdriven_attempt": RunFacet().with_additional_properties(**properties)}
    if isinstance(start, datetime) and isinstance(end, datetime):
        times = nominal_time_run.NominalTimeRunFacet(start.isoformat(), end.isoformat())
        facets["nominalTime"] = times
    if isinstance(event, WindowFailed):
        error = f"step {event.step_id}: {redact(event.error)}"
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(error, "PYTHON")
    return facets


def _inputs(event: WindowSucceeded, space: str) -> "Iterator[Any]":
    """Yield the inputs of an attempt's queries; with a row count only if there is one input."""
    from openlineage.client import event_v2 as ol
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    read = _read(event.lineage)
    counts = [step.counts.source for step in event.steps if step.counts.source is not None]
    for container in read:
        facets: _Facets = {}
        if len(read) == 1 and len(counts) == 1:
            facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(counts[0])
        yield ol.InputDataset(*_build_dataset_name(container, space), inputFacets=facets)


def _outputs(event: WindowSucceeded, space: str) -> "Iterator[Any]":
    """Yield the published datasets of an attempt, with columns, their origins, rows and version."""
    from openlineage.client import event_v2 as ol
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    steps = {step.step_id: step for step in event.steps}
    results = {query.step_id: query.result for query in event.lineage}
    last = event.published[-1].step_id if event.published else None
    for done in event.published:
        step, table = steps[done.step_id], event.attempt.table
        own = Container(table if done.step_id == last else f"{table}#{done.step_id}")
        written = statistics.OutputStatisticsOutputDatasetFacet(step.counts.success)
        yield ol.OutputDataset(
            *_build_dataset_name(own, space),
            facets=_of_output(done, step, event, results.get(done.step_id, own), space),
            outputFacets={"outputStatistics": written},
        )


def _of_output(
    done: Published, step: Staged, event: WindowSucceeded, result: Container, space: str
) -> _Facets:
    from openlineage.client.facet_v2 import (
        column_lineage_dataset,
        dataset_version_dataset,
        schema_dataset,
        symlinks_dataset,
    )

    columns = [schema_dataset.SchemaDatasetFacetFields(c.name, c.type) for c in step.columns]
    version = done.snapshot_id or str(event.attempt.job_id)
    facets: _Facets = {
        "schema": schema_dataset.SchemaDatasetFacet(columns),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(version),
    }
    if (place := _build_dataset_name(Container(done.target), space))[0] != space:
        link = symlinks_dataset.Identifier(*place, "LOCATION")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([link])
    if origins := find_outer_origins(event.lineage, result):
        fields = {
            name: column_lineage_dataset.Fields([_field(ref, space) for ref in refs if ref.column])
            for name, refs in origins.items()
        }
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields)
    return facets


def _read(lineage: tuple[QueryLineage, ...]) -> list[Container]:
    """Return the external containers from which an attempt's published columns come."""
    results = [query.result for query in lineage if query.result.type is not NodeType.TEMP]
    origins = (find_outer_origins(lineage, result).values() for result in results)
    refs = (ref for columns in origins for found in columns for ref in found)
    found = dict.fromkeys(ref.container for ref in refs)
    return [each for each in found if each.type is not NodeType.TEMP]


def _field(ref: ColumnRef, space: str) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset

    namespace, name = _build_dataset_name(ref.container, space)
    return column_lineage_dataset.InputField(namespace, name, str(ref.column))


def _build_dataset_name(container: Container, space: str) -> tuple[str, str]:
    """Return namespace and name of a dataset; tables have their names in the project.

    Files are named by OpenLineage's convention: by their file system, and their path in it.
    """
    name = redact(container.name)
    scheme, found, rest = name.partition("://")
    if found:
        host, _, path = rest.partition("/")
        return (f"{scheme}://{host}", path) if host else (scheme, f"/{path}")
    return ("file", name) if name.startswith("/") else (space, name)
