"""What is made of what is on the list gives Spark's rows on Sail, or an error, or is refused."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from pyspark.errors import ArithmeticException

from tests.plugins.sail.engines import Sail, SailError, Spark, differences
from tests.plugins.sail.random_queries import queries, with_exact_sum
from tests.plugins.sail.tables import VALUES, WIDE, Example, pairs

pytestmark = pytest.mark.usefixtures("long")

Alike = Callable[[str], None]
_OVERFLOW = re.compile("is too large for type|out of range|Can't cast value")
"""Spark may compute in another order, or not at all, what is too large by itself."""


@pytest.fixture(scope="module")
def alike(oracle: Spark, sail: Sail, tmp_path_factory: pytest.TempPathFactory) -> Alike:
    folder: Path = tmp_path_factory.mktemp("wide")
    tables = {"pairs": pairs(folder, {**VALUES, **WIDE})}

    def compare(sql: str) -> None:
        try:
            found = sail.rows(sql, tables)
        except SailError as error:
            if "is not supported" in str(error):
                reject()
            if not _OVERFLOW.search(str(error)):
                with pytest.raises(Exception, match="SQLSTATE"):
                    oracle.rows(sql, tables)
            return
        assert differences(_of_spark(oracle, sql, tables), found) == []

    return compare


def _of_spark(oracle: Spark, sql: str, tables: Mapping[str, Example]) -> pa.Table:
    """Spark's rows; where it overflows, those of the order that is written and of exact sums.

    Its optimizer may put a product in another order, or compute a constant that no row needs, and
    a part of a sum may be too large by the order of its rows.
    """
    try:
        return oracle.rows(sql, tables)
    except ArithmeticException:
        return oracle.rows_as_written(with_exact_sum(sql), tables)


RANDOM = settings(suppress_health_check=[HealthCheck.filter_too_much])


@settings(RANDOM, max_examples=60, derandomize=True)
@example(sql="SELECT l AS k, count(*) AS n, count((i * (i * 0))) AS v FROM pairs GROUP BY l")
@example(sql="SELECT id, CAST(7 AS DECIMAL(38,38)) AS v FROM pairs WHERE false")
@example(sql="SELECT b AS k, count(*) AS n, sum(l2) AS v FROM pairs WHERE b GROUP BY b")
@given(sql=queries())
def test_queries_that_are_always_the_same(alike: Alike, sql: str) -> None:
    alike(sql)


@settings(RANDOM, max_examples=1000)
@given(sql=queries())
def test_queries_that_are_always_others(alike: Alike, sql: str) -> None:
    alike(sql)
