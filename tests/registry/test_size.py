"""5,000 tables: what did not change costs next to nothing. `benchmarks.applying` tells the time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event

TABLES = 5_000


@pytest.mark.usefixtures("long")
def test_of_5000_tables_unchanged_ones_write_nothing_and_a_changed_one_once(shop):
    shop.write("logdriven.yaml", "project: shop\ndefaults: {period: 1 day}")
    for n in range(TABLES):
        shop.write(
            f"tables/t{n}.yaml",
            f"table: ods.t{n}\ndefault_start: 2022-01-01\n"
            "steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]",
        )
    assert len(shop.apply()) == TABLES + 2
    with statements() as sent:
        assert shop.apply() == []
    assert len(sent) < 20
    shop.edit("tables/t7.yaml", "AS one", "AS two")
    assert shop.apply() == [("ods.t7", "modify", 2)]


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is sent to any database meanwhile."""
    sent: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)
