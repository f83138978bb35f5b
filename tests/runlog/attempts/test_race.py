"""Processes that want the same windows at the same instant."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from sqlalchemy.engine import make_url

from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
)
from logdriven_dagster.model.attempts import (
    Owner,
)
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from tests.builders import day
from tests.runlog.logbook import open_log, rows, succeed


def race(url: str, runner: int, windows: int) -> list[int]:
    """Claim and finish every window that nobody else holds; the ones that were ours."""
    log, won = open_log(make_url(url)), []
    for n in range(windows):
        try:
            window = TimeWindow(
                day(1).start.replace(year=2000 + n), day(2).start.replace(year=2000 + n)
            )
            succeed(log, window, owner=Owner("race", runner, runner))
            won.append(n)
        except (AlreadyRunningError, AlreadyDoneError):
            continue
    return won


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_each_window_is_won_by_one_of_several_processes(database_url):
    """Opening the fresh log is part of the race."""
    url = database_url.render_as_string(hide_password=False)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        won = list(pool.map(race, [url] * 4, range(4), [40] * 4))
    assert sorted(n for each in won for n in each) == list(range(40))
    found = rows(
        RunLog.open(database_url), "SELECT status, count(*) AS n FROM job_log GROUP BY status"
    )
    assert found == [{"status": "SUCCESS", "n": 40}]
