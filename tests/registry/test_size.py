"""5,000 tables: what did not change costs next to nothing."""

import time

TABLES = 5_000


def test_of_5000_tables_unchanged_ones_write_nothing_within_3_seconds_and_a_changed_one_once(shop):
    shop.write("logdriven.yaml", "project: shop\ndefaults: {period: 1 day}")
    for n in range(TABLES):
        shop.write(
            f"tables/t{n}.yaml",
            f"table: ods.t{n}\ndefault_start: 2022-01-01\n"
            "steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]",
        )
    assert len(shop.apply()) == TABLES + 2
    began = time.process_time()
    assert shop.apply() == []
    assert time.process_time() - began < 3  # of the processor: tests share theirs
    shop.edit("tables/t7.yaml", "AS one", "AS two")
    assert shop.apply() == [("ods.t7", "modify", 2)]
