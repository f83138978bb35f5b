"""Processes that change the same definitions at the same instant."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from logdriven_dagster.execution.definitions.changes import set_settings
from logdriven_dagster.execution.definitions.registering import author, register
from tests.registry.conftest import Shop, summarize


def apply(root: str, url: str, _number: int) -> list[tuple[str, str, int]]:
    os.environ["LOGDRIVEN_RUN_LOG"] = url
    return summarize(register(Path(root)).changes)


def set_priority(root: str, url: str, number: int) -> list[tuple[str, str, int]]:
    os.environ["LOGDRIVEN_RUN_LOG"] = url
    wanted = {"ods.orders": {"priority": str(number + 1)}}
    return summarize(set_settings(Path(root), wanted, author("set")))


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Four processes, which begin with imports of seconds."""
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


Work: TypeAlias = Callable[[str, str, int], list[tuple[str, str, int]]]
Together: TypeAlias = Callable[[Work], list[tuple[str, str, int]]]


@pytest.fixture
def together(shop: Shop, processes: ProcessPoolExecutor) -> Together:
    """What four processes wrote that did some work at the same time."""
    url = shop.url.render_as_string(hide_password=False)

    def written(work: Work) -> list[tuple[str, str, int]]:
        found = processes.map(work, [str(shop.root)] * 4, [url] * 4, range(4))
        return sorted(change for each in found for change in each)

    return written


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_processes_that_apply_at_the_same_time_write_each_version_once(shop, together):
    """Making the fresh log is part of the race, and so is the first row of the project."""
    shop.with_sales()
    first = together(apply)
    assert len(first) == len(set(first)) == 9
    assert {(operation, version) for _, operation, version in first} == {("add", 1)}
    shop.edit("tables/orders.yaml", "AS one", "AS two")
    assert together(apply) == [("ods.orders", "modify", 2)]


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_processes_that_set_at_the_same_time_each_make_a_version(shop, together):
    shop.apply()
    assert together(set_priority) == [("ods.orders", "modify", n) for n in (2, 3, 4, 5)]
    assert shop.versions("ods.orders") == [(1, "add"), *((n, "modify") for n in (2, 3, 4, 5))]
