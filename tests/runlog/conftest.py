"""An empty run log on each kind of database in turn."""

import pytest

from tests.runlog.logbook import open_log


@pytest.fixture
def log(database_url):
    opened = open_log(database_url)
    yield opened
    opened.engine.dispose()
