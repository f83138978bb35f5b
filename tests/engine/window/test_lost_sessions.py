"""A Spark Connect server that is lost before a window has its session."""

from contextlib import contextmanager

import grpc
import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from logdriven_dagster.engine.spark import dead_sessions
from logdriven_dagster.engine.window import engine
from logdriven_dagster.errors import SparkDiedError
from tests.builders import day
from tests.engine.laboratory import Lab


def test_a_server_that_is_lost_between_two_windows_has_died(lab: Lab, monkeypatch):
    @contextmanager
    def lost(*_args, **_options):
        raise SparkConnectGrpcException("lost", grpc_status_code=grpc.StatusCode.UNAVAILABLE)
        yield

    monkeypatch.setattr(engine, "fresh_session", lost)
    monkeypatch.setattr(dead_sessions, "_served", ["a session"])
    monkeypatch.setattr(dead_sessions, "_lost", [])
    lab.table("ods.t", {"sql": "SELECT 1 AS one", "target": {"type": "parquet"}})
    with pytest.raises(SparkDiedError, match="does not answer"), lab.session("ods.t", day(1)):
        pass
