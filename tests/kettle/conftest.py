"""Kettle on MariaDB and our log on any database, both with nothing in them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, make_url

from logdriven_dagster.runlog import RunLog
from tests.kettle.kettle import Kettle
from tests.runlog.logbook import open_log
from tests.servers import new_database


@pytest.fixture(scope="module")
def kettle_engine(server_urls):
    """A database with the guide's tables and views."""
    with new_database(server_urls["LOGDRIVEN_TEST_MARIADB"]) as url:
        engine = create_engine(url)
        with engine.begin() as conn:
            Kettle.create(conn)
        yield engine
        engine.dispose()


@pytest.fixture
def kettle(kettle_engine) -> Iterator[Kettle]:
    with kettle_engine.connect() as conn:
        yield Kettle(conn)
        conn.rollback()


@pytest.fixture
def log(database_url) -> Iterator[RunLog]:
    opened = open_log(database_url)
    yield opened
    opened.engine.dispose()


@pytest.fixture(scope="module")
def run_log(tmp_path_factory) -> Iterator[RunLog]:
    """One in a file, for tests that take back what they write."""
    opened = open_log(make_url(f"sqlite:///{tmp_path_factory.mktemp('log')}/run_log.db"))
    yield opened
    opened.engine.dispose()
