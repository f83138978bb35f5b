"""Everything on the list of what is proven on Sail gives Spark's rows; Spark is the oracle."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.plugins.sail.cases import Case, cases, entries, queries
from tests.plugins.sail.engines import Sail, SailError, Spark, differences
from tests.plugins.sail.tables import Example

Tables = Mapping[str, Example]
MOST_FAILURES = 2
"""Of the rows that an expression fails for, so many are tried one by one."""


def _of_all(expressions: list[str], where: str = "true") -> str:
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
    return f"SELECT id, {columns} FROM pairs WHERE {where}"


def _named(found: list[tuple[str, object, object]], chosen: list[Case]) -> list[object]:
    return [(chosen[int(name[1:])].sql, *rest) for name, *rest in found]


def test_everything_on_the_list_is_in_the_matrix() -> None:
    tried = {case.proves for case in cases()} | {entry for _, entry in queries()}
    assert entries() <= tried


@pytest.mark.usefixtures("long")
def test_values_that_cannot_fail_are_equal(oracle: Spark, sail: Sail, tables: Tables) -> None:
    chosen = [case for case in cases() if case.tried is None]
    sql = _of_all([case.sql for case in chosen])
    spark, found = oracle.rows(sql, tables), sail.rows(sql, tables)
    assert _named(differences(spark, found, key=["id"]), chosen) == []


@pytest.mark.usefixtures("long")
def test_values_that_may_fail_are_equal_or_fail(oracle: Spark, sail: Sail, tables: Tables) -> None:
    chosen = [case for case in cases() if case.tried is not None]
    tried = oracle.rows(_of_all([str(case.tried) for case in chosen]), tables)
    inputs = oracle.rows("SELECT * FROM pairs", tables)
    problems: list[object] = []
    for n, case in enumerate(chosen):
        failing = _failing(case, tried[f"c{n}"], inputs)
        good = ", ".join(str(row) for row in range(len(tried)) if row not in failing)
        sql = f"SELECT id, {case.sql} AS v FROM pairs WHERE id IN ({good or -1})"
        try:
            spark = tried.select(["id", f"c{n}"]).rename_columns(["id", "v"])
            spark = spark.filter(pc.invert(pc.is_in(spark["id"], pa.array(failing, pa.int64()))))
            problems += [
                (case.sql, *rest) for _, *rest in differences(spark, sail.rows(sql, tables))
            ]
        except SailError as error:
            problems.append((case.sql, str(error)))
        for row in failing[:MOST_FAILURES]:
            sql = f"SELECT id, {case.sql} AS v FROM pairs WHERE id = {row}"
            try:
                value = sail.rows(sql, tables)["v"].to_pylist()
                problems.append((case.sql, f"row {row} does not fail, but is {value}"))
            except SailError as error:
                if "is not supported" in str(error):
                    problems.append((case.sql, str(error)))
    assert not problems, "\n".join(map(str, problems))


def _failing(case: Case, made: pa.ChunkedArray, inputs: pa.Table) -> list[int]:
    """The rows that Spark makes NULL of though no column that is named is NULL."""
    words = "".join(sign if sign.isalnum() else " " for sign in case.sql).split()
    named = [name for name in inputs.column_names if name in words]
    if "coalesce" in case.sql:
        named = [name for name in named if name == "m"]
    known = [inputs[name].is_valid().to_pylist() for name in named]
    results = made.is_valid().to_pylist()
    return [row for row, fits in enumerate(results) if not fits and all(k[row] for k in known)]


@pytest.mark.usefixtures("long")
def test_queries_of_several_rows_are_equal(oracle: Spark, sail: Sail, tables: Tables) -> None:
    problems: list[object] = []
    for sql in dict(queries()):
        try:
            found = differences(oracle.rows(sql, tables), sail.rows(sql, tables))
        except SailError as error:
            found = [("error", str(error), "")]
        problems += [(sql, each) for each in found]
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.sampled
@pytest.mark.parametrize("column", ["one", "within"])
def test_every_character_is_treated_alike(
    oracle: Spark, sail: Sail, tables: Tables, column: str
) -> None:
    made = ("upper({})", "lower({})", "length({})", "concat({}, 'x')")
    columns = ", ".join(f"{each.format(column)} AS c{n}" for n, each in enumerate(made))
    sql = f"SELECT id, {columns} FROM characters"
    assert differences(oracle.rows(sql, tables), sail.rows(sql, tables), key=["id"]) == []


def test_a_sum_that_does_not_fit_fails(sail: Sail, tables: Tables) -> None:
    with pytest.raises(SailError, match="too large for type bigint"):
        sail.rows("SELECT sum(l) AS s FROM pairs WHERE l > 0", tables)


@pytest.mark.parametrize("found", ["0 IN ({})", "l IN ({}, 0)"])
def test_a_constant_in_a_list_that_does_not_fit_fails(
    sail: Sail, tables: Tables, found: str
) -> None:
    sql = f"SELECT id FROM pairs WHERE {found.format('CAST(2147483647 AS DECIMAL(3, 0))')}"
    with pytest.raises(SailError, match="too large for type decimal"):
        sail.rows(sql, tables)
