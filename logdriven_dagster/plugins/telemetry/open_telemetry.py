"""OpenTelemetry spans: a run, its windows, and their steps, checks and publications.

They are sent to the destination of OpenTelemetry's own variables, by a thread of its SDK. Without
such variables nothing is sent or imported.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cache
from importlib.metadata import entry_points
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster._version import __version__
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import UsageError, in_brief
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
    rows_of,
)
from logdriven_dagster.execution.window.listeners import Report, WindowListener
from logdriven_dagster.model.attempts import Attempt, Owner, Status

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds that the end of a run waits for unsent spans."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""Protocol → the name by which its package registers an exporter."""

_runs: "dict[Owner, Span]" = {}
"""The current runs of this process."""
_ENDS = (WindowSucceeded, WindowFailed, WindowSetBack, WindowLost)


_Key: TypeAlias = tuple[Owner, str, str, int]


class OpenTelemetry(WindowListener):
    """Listener that makes spans, if OpenTelemetry's own variables configure a destination."""

    def __init__(self) -> None:
        self._passes: dict[_Key, WindowSpans] = {}
        """The current passes, by their first attempts."""

    def observe_run(self, project: str, owner: Owner) -> AbstractContextManager[None]:
        """Make a span of a run and send all spans at its end, unless the run is nested."""
        tracer = _tracer()
        return _NOTHING if tracer is None or owner in _runs else _run_span(tracer, owner, project)

    def observe_windows(self, attempts: Sequence[Attempt]) -> AbstractContextManager[None]:
        """Make spans of windows, and one around them if there are several."""
        tracer = _tracer()
        return _NOTHING if tracer is None else self._window_spans(tracer, attempts)

    @contextmanager
    def _window_spans(self, tracer: "Tracer", attempts: Sequence[Attempt]) -> Iterator[None]:
        key, spans = _key_of(attempts[0]), WindowSpans(tracer, attempts)
        self._passes[key] = spans
        try:
            yield
        except BaseException as error:
            spans.interrupt(error)
            raise
        finally:
            del self._passes[key]

    def observe_work(self, attempts: Sequence[Attempt]) -> AbstractContextManager[Any]:
        """Make spans of this thread children of the windows' span."""
        spans = self._passes.get(_key_of(attempts[0])) if self._passes else None
        return _NOTHING if spans is None else spans.current()

    def observe_part(self, name: str, owner: Owner | None = None) -> AbstractContextManager[Report]:
        """Make a span of a part of this thread's work, or of the owner's run."""
        tracer = _tracer()
        return _SILENT if tracer is None else _part_span(tracer, name, owner)

    def on_end(self, events: Sequence[WindowEvent], application_id: str | None) -> None:
        """End the spans of windows."""
        ends = [event for event in events if isinstance(event, _ENDS)]
        spans = self._passes.get(_key_of(ends[0].attempt)) if self._passes else None
        if spans is not None:
            spans.end(ends, application_id)


def _key_of(attempt: Attempt) -> _Key:
    claim = attempt.claim
    return claim.owner, claim.project, claim.table, attempt.job_id


@contextmanager
def _run_span(tracer: "Tracer", owner: Owner, project: str) -> Iterator[None]:
    attributes = {"logdriven.project": project, "logdriven.owner": str(owner)}
    span = tracer.start_span("run", _around_run(), attributes=attributes | _of_owner(owner))
    _runs[owner] = span
    try:
        with _ending(span):
            yield
    finally:
        del _runs[owner]
        _flush()


@contextmanager
def _part_span(tracer: "Tracer", name: str, owner: Owner | None) -> Iterator[Report]:
    span = tracer.start_span(name, None if owner is None else _in_run(owner))
    with _ending(span), _as_current(span):
        yield lambda **attributes: _set_attributes(span, attributes)


class WindowSpans:
    """The spans of the windows of a pass; several have one around them, which has the steps."""

    def __init__(self, tracer: "Tracer", attempts: Sequence[Attempt]) -> None:
        claim = attempts[0].claim
        around = _in_run(claim.owner)
        self._run, self._pass = _runs.get(claim.owner), None
        self._spark: dict[str, str] = {}
        if len(attempts) > 1:
            self._pass = tracer.start_span(f"pass {claim.table}", around)
            _set_attributes(self._pass, {"table": claim.table, "windows": len(attempts)})
            around = _build_context(self._pass)
        name = f"window {claim.table}"
        self._open = {attempt.job_id: tracer.start_span(name, around) for attempt in attempts}
        for attempt in attempts:
            _set_attributes(self._open[attempt.job_id], _of_attempt(attempt))
        self._doing = self._pass or self._open[attempts[0].job_id]

    def current(self) -> AbstractContextManager[Any]:
        """Make spans of this thread children of the windows' span."""
        return _as_current(self._doing)

    def end(self, events: Iterable[WindowEvent], application_id: str | None) -> None:
        """Record the outcomes of the windows; `application_id` is that of Spark, if it ran."""
        self._spark = {} if application_id is None else {"spark.application_id": application_id}
        for event in events:
            match event:
                case WindowSucceeded():
                    self._end(event.attempt, Status.SUCCESS.value, **rows_of(event.steps))
                case WindowFailed(step_id=step, error=error):
                    self._end(event.attempt, Status.FAILURE.value, f"step {step}: {error}")
                case WindowSetBack(reason=reason):
                    self._end(event.attempt, Status.DISCARDED.value, reason)
                case WindowLost(reason=why):
                    self._end(event.attempt, "LOST", str(why))
                case _:
                    pass
        if self._pass is not None:
            self._pass.end()

    def interrupt(self, cause: BaseException) -> None:
        """Record on the spans of open windows that their runner is being stopped."""
        if not self._open:
            return
        for span in [*self._open.values(), *filter(None, [self._pass])]:
            _fail(span, f"interrupted: {str(cause) or type(cause).__name__}")
            span.end()

    def _end(self, attempt: Attempt, status: str, error: str = "", **more: Any) -> None:
        span = self._open.pop(attempt.job_id)
        _set_attributes(span, {**_of_attempt(attempt), **more, "status": status})
        span.set_attributes({**_of_owner(attempt.claim.owner), **self._spark})
        if error:
            _fail(span, error)
            _fail(self._doing, error)
            # A window of a pass that is set back runs again.
            if self._run is not None and status != Status.DISCARDED.value:
                _fail(self._run, "a window failed")
        span.end()


def _ignore(**_attributes: Any) -> None:
    pass


_NOTHING = nullcontext()
_SILENT = nullcontext(_ignore)


def _set_attributes(span: "Span", attributes: dict[str, Any]) -> None:
    span.set_attributes({f"logdriven.{k}": v for k, v in attributes.items() if v is not None})


def _fail(span: "Span", error: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR, redact(in_brief(error)))


@contextmanager
def _ending(span: "Span") -> Iterator[None]:
    """End a span with its block; errors are recorded without secrets."""
    try:
        yield
    except BaseException as error:
        _fail(span, str(error) or type(error).__name__)
        raise
    finally:
        span.end()


def _of_attempt(attempt: Attempt) -> dict[str, Any]:
    claim = attempt.claim
    start, end = (
        bound.isoformat() if isinstance(bound, datetime) else bound and str(bound)
        for bound in attempt.window.bounds
    )
    return {
        "project": claim.project,
        "table": claim.table,
        "data_range_start": start,
        "data_range_end": end,
        "job_id": attempt.job_id,
        "attempt_number": attempt.attempt_number,
        "trigger": claim.trigger.value,
        "job_run_id": claim.job_run_id,
    }


def _of_owner(owner: Owner) -> dict[str, str]:
    return {} if owner.dagster_run_id is None else {"dagster.run_id": owner.dagster_run_id}


def _build_context(span: "Span") -> "Context":
    from opentelemetry.trace import set_span_in_context

    return set_span_in_context(span)


def _in_run(owner: Owner) -> "Context":
    run = _runs.get(owner)
    return _around_run() if run is None else _build_context(run)


def _around_run() -> "Context":
    """Return the context of a run: the current span, or the one in TRACEPARENT."""
    from opentelemetry import context, propagate, trace

    if trace.get_current_span().get_span_context().is_valid:
        return context.get_current()
    names = ("traceparent", "tracestate")
    return propagate.extract({name: os.environ.get(name.upper(), "") for name in names})


def _as_current(span: "Span") -> AbstractContextManager[Any]:
    from opentelemetry.trace import use_span

    # Exceptions are not recorded: their texts and traces may contain secrets.
    return use_span(span, record_exception=False, set_status_on_exception=False)


@cache
def _tracer() -> "Tracer | None":
    """Return the tracer; None if no exporter is configured, or tracing does not start."""
    exporters = _exporters()
    if not exporters:
        return None
    try:
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(_provider(exporters))
        return trace.get_tracer("logdriven_dagster", __version__)
    except Exception as error:  # noqa: BLE001 - depends on its configuration
        missing = isinstance(error, ImportError)
        fix = "; run `pip install 'logdriven_dagster[otel]'`" if missing else ""
        logger.warning("tracing_failed: %s: %s%s", type(error).__name__, redact(str(error)), fix)
        return None


def _exporters() -> list[str]:
    """Return the names of the exporters in OpenTelemetry's variables."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    asked = os.environ.get("OTEL_TRACES_EXPORTER") or ("otlp" if _first(_ENDPOINTS) else "none")
    names = [name.strip() for name in asked.split(",")]
    protocol = _first(_PROTOCOLS) or "http/protobuf"
    otlp = _OTLP.get(protocol, protocol)
    return [otlp if name == "otlp" else name for name in names if name and name != "none"]


def _first(variables: Sequence[str]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)


def _provider(exporters: Sequence[str]) -> "TracerProvider":
    """Create the tracer provider by OpenTelemetry's variables, for the service `logdriven`."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    described = Resource.create({"service.name": "logdriven"}).merge(
        OTELResourceDetector().detect()
    )
    provider = TracerProvider(resource=described, shutdown_on_exit=False)
    for name in exporters:
        found = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not found:
            package = f"opentelemetry-exporter-{name.replace('_', '-')}"
            raise UsageError(f"exporter {name} is not installed; run `pip install '{package}'`")
        provider.add_span_processor(BatchSpanProcessor(next(iter(found)).load()()))
    heard = logging.getLogger("opentelemetry")
    heard.addHandler(_Once())
    heard.propagate = False
    return provider


def _flush() -> None:
    """Send waiting spans, within the time limit."""
    from opentelemetry import trace

    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        thread = Thread(target=flush, name="tracing", daemon=True)
        thread.start()
        thread.join(_PATIENCE)


class _Once(logging.Handler):
    """Handler that warns of each problem once: an unreachable receiver fails for every batch."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg) not in self._told:
            self._told.add(str(record.msg))
            logger.warning("tracing_failed: %s", redact(in_brief(record.getMessage())))
