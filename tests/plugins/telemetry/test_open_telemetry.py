"""Spans of OpenTelemetry, as a receiver gets them from the exporter's own requests."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.plugins.telemetry import open_telemetry as tracing
from tests.builders import day, run_window
from tests.execution.conftest import NOW, NUMBERS
from tests.plugins.telemetry.receiver import Receiver, receiver

TOGETHER = NUMBERS.replace("{type: iceberg}", "{type: iceberg, window_column: day}") + (
    "    batch_size: all"
)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@dataclass(frozen=True)
class Span:
    """A span as it was sent."""

    name: str
    id: str
    parent: str
    trace: str
    began: int
    ended: int
    error: str | None
    attributes: dict[str, Any]
    service: str

    def __getitem__(self, name: str) -> Any:
        return self.attributes[f"logdriven.{name}"]


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def spans_of(found: Receiver) -> list[Span]:
    """What a receiver got, in the order of the beginnings."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in found.bodies]
    spans = [
        Span(
            each.name,
            each.span_id.hex(),
            each.parent_span_id.hex(),
            each.trace_id.hex(),
            each.start_time_unix_nano,
            each.end_time_unix_nano,
            each.status.message if each.status.code == each.status.STATUS_CODE_ERROR else None,
            values(each.attributes),
            values(resource.resource.attributes)["service.name"],
        )
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for each in scope.spans
    ]
    return sorted(spans, key=lambda span: span.began)


def drawn(spans: list[Span]) -> list[str]:
    """The names of spans, those within another one behind it and to the right."""

    def of(parent: str, depth: int) -> Iterator[str]:
        for span in spans:
            if span.parent == parent:
                yield "  " * depth + span.name
                yield from of(span.id, depth + 1)

    ids = {span.id for span in spans}
    return [line for span in spans if span.parent not in ids for line in of(span.parent, 0)]


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver that this process sends to: its exporter is set up once."""
    with receiver(tmp_path_factory.mktemp("receiver")) as found, pytest.MonkeyPatch.context() as to:
        to.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        tracing._tracer.cache_clear()
        yield found
    tracing._tracer.cache_clear()


@pytest.fixture
def received(listening: Receiver) -> Receiver:
    listening.kept.write_text("")
    return listening


COMMAND = """
from logdriven_dagster.cli import main
from logdriven_dagster.testing.null_engine import null_engine

with null_engine():
    main()
"""


def command(world: Any, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `logdriven` on the null engine as a process of its own."""
    line = [sys.executable, "-c", COMMAND, *words, "--project", str(world.root)]
    return subprocess.run(
        line, env=os.environ | variables, capture_output=True, text=True, check=False
    )


def test_a_run_holds_its_windows_with_their_steps_and_what_they_publish(world, received):
    world.write(
        "tables/sums.yaml",
        (world.root / "tables/sums.yaml").read_text()
        + "checks: [{check: any, sql: SELECT * FROM add WHERE total IS NULL}]",
    )
    world.catch_up(max_windows=2)
    spans = spans_of(received)
    assert drawn(spans) == [
        "run",
        "  start Spark",
        "  window ods.numbers",
        "    step load",
        "    publish load",
        "  window dws.sums",
        "    step add",
        "    check any",
        "    publish add",
    ]
    assert {span.service for span in spans} == {"logdriven"}
    assert [span.error for span in spans if span.error] == []


def test_a_window_shows_the_contents_of_the_log(world, received):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    (row,) = world.log()
    (window,) = [span for span in spans_of(received) if span.name == "window ods.numbers"]
    assert window.attributes == {
        "logdriven.project": "world",
        "logdriven.table": "ods.numbers",
        "logdriven.data_range_start": "2022-01-01T00:00:00+00:00",
        "logdriven.data_range_end": "2022-01-02T00:00:00+00:00",
        "logdriven.job_id": row["job_id"],
        "logdriven.attempt_number": 1,
        "logdriven.trigger": "pending",
        "logdriven.status": "SUCCESS",
        "logdriven.rows_read": 2,
        "logdriven.rows_written": 2,
        "logdriven.rows_rejected": 0,
        "spark.application_id": row["application_id"],
    }


def test_spans_of_a_python_transform_are_within_its_step(spark, world, received):
    world.write(
        "tables/own.py",
        """
        from opentelemetry import trace

        def rows(spark):
            with trace.get_tracer("mine").start_as_current_span("ask the API"):
                return spark.range(3)
        """,
    )
    world.write(
        "tables/own.yaml",
        """
        table: ods.own
        period: 1 day
        default_start: 2022-01-04
        steps: [{step: ask, python: 'own.py:rows', target: {type: parquet}}]
        """,
    )
    world.catch_up(tables=["ods.own"])
    assert drawn(spans_of(received))[-4:] == [
        "  window ods.own",
        "    step ask",
        "      ask the API",
        "    publish ask",
    ]


def test_windows_side_by_side_have_each_their_own_steps(world, received):
    world.catch_up(max_windows=4, max_parallel=2)
    spans = spans_of(received)
    of = {span.id: span for span in spans}
    (run,) = [span for span in spans if span.name == "run"]
    windows = [span for span in spans if span.name.startswith("window ")]
    assert len(windows) == 4
    assert {span.parent for span in windows} == {run.id}
    for part in ("step load", "publish load", "step add", "publish add"):
        table = "ods.numbers" if part.endswith("load") else "dws.sums"
        found = [of[span.parent] for span in spans if span.name == part]
        assert len({window.id for window in found}) == len(found)
        assert {window["table"] for window in found} == {table}


def test_several_windows_of_one_pass_share_its_steps(world, received):
    world.write("tables/numbers.yaml", TOGETHER)
    world.catch_up(tables=["ods.numbers"])
    spans = spans_of(received)
    assert drawn(spans) == [
        "run",
        "  start Spark",
        "  pass ods.numbers",
        *["    window ods.numbers"] * 4,
        "    step load",
        "    publish load",
    ]
    windows = [span for span in spans if span.name.startswith("window")]
    assert [span["data_range_start"][8:10] for span in windows] == ["01", "02", "03", "04"]
    assert {span["rows_written"] for span in windows} == {2}
    (step,) = [span for span in spans if span.name == "step load"]
    assert step["rows_written"] == 8


def test_a_failure_is_reported_where_it_was_and_no_secret_leaves(
    spark, world, received, monkeypatch
):
    monkeypatch.setenv("TOKEN", "s3cret-of-mine")
    world.write("logdriven.yaml", "project: world\nvariables: {token: '${env:TOKEN}'}")
    fails = "CASE WHEN n = 'oops' THEN raise_error(concat('no ', '${token}')) ELSE n END AS n"
    world.write(
        "tables/numbers.yaml",
        TOGETHER.replace("CAST(n AS INT) AS n", fails),
    )
    world.numbers("2022-01-01,1", "2022-01-02,oops")
    world.catch_up(tables=["ods.numbers"])
    spans = spans_of(received)
    assert all(b"s3cret-of-mine" not in body for body in received.bodies)
    windows = [span for span in spans if span.name == "window ods.numbers"]
    assert [(span["data_range_start"][8:10], span["status"]) for span in windows] == [
        *[(n, "DISCARDED") for n in ("01", "02", "03", "04", "01", "02")],
        ("01", "SUCCESS"),
        ("02", "FAILURE"),
    ]
    assert windows[-1].error.startswith("step load: ")
    assert "no " in windows[-1].error
    (run, *_), failed = spans, [span.name for span in spans if span.error]
    assert run.error == "a window failed"
    assert failed == [
        *["run", "pass ods.numbers", *["window ods.numbers"] * 4, "step load"],
        *["pass ods.numbers", *["window ods.numbers"] * 2, "step load"],
        *["window ods.numbers", "step load"],
    ]


def test_a_window_that_is_interrupted_is_reported(world, received):
    running = run_window(world.runner, "ods.numbers", day(1), NOW)
    next(running)
    running.close()
    (run, *_, window) = spans_of(received)
    assert (window.name, window.error) == ("window ods.numbers", "interrupted: GeneratorExit")
    assert run.error


def test_steps_of_a_maintenance_job_belong_to_its_run(world, received):
    world.write("jobs/steps.py", "def fine(): pass\n\ndef bad(): raise OSError('disk is full')")
    world.write(
        "jobs/sweep.yaml",
        """
        job: sweep
        type: maintenance
        steps:
          - {exec_order: 10, step: first, python: 'steps.py:fine'}
          - {exec_order: 20, step: second, python: 'steps.py:bad'}
        """,
    )
    list(run_job(world.runner, "sweep", NOW))
    spans = spans_of(received)
    assert drawn(spans) == ["run", "  step first", "  step second"]
    assert spans[1].error is None
    assert spans[2].error.startswith("OSError: disk is full")


@pytest.mark.usefixtures("slow")
def test_a_run_nests_in_the_trace_of_what_started_it_and_all_is_sent_at_its_end(
    world, tmp_path: Path
):
    with receiver(tmp_path) as found:
        ended = command(
            world,
            *("run", "ods.numbers", "--max-windows", "1", "--now", "2022-01-05"),
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{found.url}/v1/traces",
            OTEL_SERVICE_NAME="night shift",
            TRACEPARENT=f"00-{TRACE}-{PARENT}-01",
        )
        assert ended.returncode == 0, ended.stderr
        spans = spans_of(found)
    assert {(span.trace, span.service) for span in spans} == {(TRACE, "night shift")}
    assert spans[0].parent == PARENT
    assert drawn(spans)[-3:] == ["  window ods.numbers", "    step load", "    publish load"]


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize("how", ["deaf", "gone"])
def test_a_receiver_that_does_not_answer_costs_a_run_five_seconds_and_one_warning(
    tmp_path: Path, how: str
):
    program = (
        "import time\n"
        "from logdriven_dagster.plugins.telemetry import open_telemetry as tracing\n"
        "from logdriven_dagster.model.attempts import Owner\n"
        "began = time.monotonic()\n"
        "listener = tracing.OpenTelemetry()\n"
        "with listener.observe_run('shop', Owner('here', 1, 1)):\n"
        "    for _ in range(1000):\n"
        "        with listener.observe_part('step load'): pass\n"
        "    took = time.monotonic() - began\n"
        "print(took, time.monotonic() - began)"
    )
    with receiver(tmp_path, how) as found:
        url = found.url if how == "deaf" else "http://127.0.0.1:9"
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": url},
            capture_output=True,
            text=True,
            check=True,
        )
    working, waiting = map(float, ended.stdout.split())
    assert working < 5
    assert 4 < waiting < 15
    assert ended.stderr.count("tracing_failed") == (how == "gone")


def test_notifying_takes_no_time(world, received):
    (ended,) = world.catch_up(tables=["ods.numbers"], max_windows=1)[1:]
    attempts, listener = [ended.attempt], tracing.OpenTelemetry()
    began = time.perf_counter()
    for _ in range(100):
        with listener.observe_windows(attempts):
            step, published = map(listener.observe_part, ("step load", "publish load"))
            with listener.observe_work(attempts), step, published:
                pass
            listener.on_end([ended], None)
    assert (time.perf_counter() - began) / 100 < 0.005


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    "variables",
    [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}],
)
def test_without_a_configuration_nothing_is_loaded_and_nothing_runs(variables: dict[str, str]):
    program = (
        "import sys, threading\n"
        "from logdriven_dagster.plugins.telemetry import open_telemetry as tracing\n"
        "listener = tracing.OpenTelemetry()\n"
        "with listener.observe_run('shop', None), listener.observe_windows([None]):\n"
        "    with listener.observe_part('step load') as report:\n"
        "        report(rows_read=1)\n"
        "print('opentelemetry' in sys.modules, threading.active_count())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False 1\n"


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("missing", "protocol", "package"),
    [
        ("opentelemetry", "http/protobuf", "logdriven_dagster[otel]"),
        ("grpc", "grpc", "opentelemetry-exporter-otlp-proto-grpc"),
    ],
)
def test_without_a_package_a_warning_names_the_package_to_install(
    missing: str, protocol: str, package: str
):
    program = (
        f"import sys; sys.modules['{missing}'] = None; import logging; logging.basicConfig()\n"
        "from logdriven_dagster.plugins.telemetry import open_telemetry as tracing\n"
        "with tracing.OpenTelemetry().observe_part('step load') as report: report(rows_read=1)"
    )
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }
    ended = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    assert f"pip install '{package}'" in ended.stderr
