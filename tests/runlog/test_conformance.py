"""The conformance tests of run logs, on each kind of database in turn."""

import pytest

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.testing.run_log_conformance import RunLogConformance


class TestRunLog(RunLogConformance):
    @pytest.fixture
    def run_log(self, log: RunLog) -> RunLog:
        return log
