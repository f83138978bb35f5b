"""An empty run log on each kind of database in turn."""

import pytest

from logdriven_dagster.runlog import RunLog


@pytest.fixture
def log(database_url):
    opened = RunLog.open(database_url)
    yield opened
    opened.engine.dispose()
