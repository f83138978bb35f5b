"""What `make demo-lake` says of the lake's tables beside the local ones."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from scripts.lake.comparison import compare


@pytest.fixture
def catalog(tmp_path):
    def holding(name, **tables):
        found = load_catalog(
            name, type="sql", uri=f"sqlite:///{tmp_path}/{name}.db", warehouse=f"{tmp_path}/{name}"
        )
        found.create_namespace("ods")
        for table, numbers in tables.items():
            rows = pa.table({"n": numbers})
            found.create_table(f"ods.{table}", rows.schema).append(rows)
        return found

    return holding


def test_the_same_rows_in_another_order_are_the_same(catalog, capsys):
    assert compare(catalog("lake", t=[2, 1, 1]), catalog("local", t=[1, 1, 2])) == 0
    assert "ods.t: 3 rows in the lake, 3 in the local demo" in capsys.readouterr().out


def test_other_rows_are_shown_though_there_are_as_many(catalog, capsys):
    assert compare(catalog("lake", t=[1, 1, 3]), catalog("local", t=[1, 3, 3])) == 1
    told = capsys.readouterr().out
    assert "DIFFERENT: ods.t: only the lake has 1 rows, such as {'n': 1}" in told
    assert "DIFFERENT: ods.t: only the local demo has 1 rows, such as {'n': 3}" in told


def test_a_table_that_one_of_them_lacks_is_named(catalog, capsys):
    assert compare(catalog("lake", t=[1]), catalog("local", t=[1], u=[2])) == 1
    assert "DIFFERENT: ods.u is only in the local demo" in capsys.readouterr().out


def test_no_tables_at_all_prove_nothing(catalog):
    assert compare(catalog("lake"), catalog("local")) == 1
