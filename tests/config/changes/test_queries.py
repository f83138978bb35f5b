"""A change of a query never has a smaller class than it is."""

import pytest

from logdriven_dagster.config.changes.canonical import canonicalize_sql
from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.changes.queries import compare_queries
from tests.config.changes.edits import PAGE, Edit, list_edits, render

EDITS = list(list_edits())


def find(before: str, after: str, *keys: str) -> Effect:
    changes = compare_queries(before, after, keys)
    return max((change.effect for change in changes), default=Effect.COSMETIC)


def test_there_are_two_hundred_edits():
    assert len(EDITS) >= 200


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.query}: {edit.name}")
def test_no_edit_is_classified_smaller_than_it_is(edit: Edit):
    assert edit.found >= edit.effect


def test_edits_without_effect_are_found_cosmetic():
    cosmetic = [edit for edit in EDITS if edit.effect is Effect.COSMETIC]
    assert [edit for edit in cosmetic if edit.found is not Effect.COSMETIC] == []


def test_the_page_has_the_present_results():
    assert PAGE.read_text() == render(), "run `python -m tests.config.changes.edits`"


DIFFERENT = [
    ("SELECT 1", "SELECT 1L"),
    ("SELECT 1.0", "SELECT 1.00"),
    ("SELECT '${a}'", "SELECT '${b}'"),
    ("SELECT ${a} FROM t", "SELECT ${b} FROM t"),
    ("SELECT :a FROM t", "SELECT :b FROM t"),
    (r"SELECT r'\n'", r"SELECT '\n'"),
    ("SELECT x'1f'", "SELECT '1f'"),
    ("SELECT a FROM t LIMIT 1", "SELECT a FROM t"),
    ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "SELECT a FROM t"),
    ("SELECT a FROM t VERSION AS OF 1", "SELECT a FROM t VERSION AS OF 2"),
    ("SELECT first(a) FROM t", "SELECT first(a) IGNORE NULLS FROM t"),
    ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a NULLS LAST"),
    ("SELECT a FROM t LEFT SEMI JOIN u USING (x)", "SELECT a FROM t LEFT ANTI JOIN u USING (x)"),
    ("SELECT sum(a) FILTER (WHERE b) FROM t", "SELECT sum(a) FROM t"),
    ("SELECT collect_list(a) FROM t", "SELECT collect_set(a) FROM t"),
    ("SELECT try_cast(a AS INT) FROM t", "SELECT CAST(a AS INT) FROM t"),
    ("SELECT a FROM t WHERE b <=> c", "SELECT a FROM t WHERE b = c"),
    ("SELECT a LIKE 'x' ESCAPE '!' FROM t", "SELECT a LIKE 'x' FROM t"),
    ("SELECT interval 1 day", "SELECT interval 2 day"),
    ("SELECT transform(a, x -> x + 1) FROM t", "SELECT transform(a, x -> x + 2) FROM t"),
    ("SELECT a FROM t EXCEPT ALL SELECT a FROM u", "SELECT a FROM t EXCEPT SELECT a FROM u"),
    ("SELECT count(*) FROM t GROUP BY CUBE (a)", "SELECT count(*) FROM t GROUP BY ROLLUP (a)"),
    ("WITH x AS (SELECT 1 a), y AS (SELECT 2 a) SELECT x.a FROM x",
     "WITH x AS (SELECT 1 a), y AS (SELECT 2 a) SELECT y.a FROM y"),
    ("SELECT a FROM t WHERE (a OR b) AND c", "SELECT a FROM t WHERE a OR b AND c"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_queries_that_mean_something_else_have_different_forms(before: str, after: str):
    assert canonicalize_sql(before) != canonicalize_sql(after)
    assert compare_queries(before, after)


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ("SELECT a, f(1) x FROM t", "SELECT a, f(1) x, g(2) y FROM t", Effect.GRAIN),
        ("SELECT f(1) c FROM t", "SELECT f(1) c, count(*) n FROM t", Effect.GRAIN),
        ("SELECT a FROM t", "SELECT a, explode(b) c FROM t", Effect.GRAIN),
        ("SELECT a FROM t GROUP BY ALL", "SELECT a, b FROM t GROUP BY ALL", Effect.GRAIN),
        ("SELECT a FROM t HAVING n > 1", "SELECT a, b AS n FROM t HAVING n > 1", Effect.GRAIN),
        ("SELECT a FROM t", "SELECT A FROM t", Effect.SHAPE),
        ("SELECT a, b FROM t", "SELECT b, a FROM t", Effect.SHAPE),
        ("SELECT * FROM t", "SELECT *, 1 AS x FROM t", Effect.SHAPE),
        ("SELECT a * 1.5 AS x FROM t", "SELECT a * 1.25 AS x FROM t", Effect.SHAPE),
        ("SELECT a FROM x", "WITH x AS (SELECT 1 a) SELECT a FROM x", Effect.SHAPE),
        (
            "WITH x AS (SELECT a FROM t) SELECT * FROM x",
            "WITH x AS (SELECT a, b FROM t) SELECT * FROM x",
            Effect.SHAPE,
        ),
        ("SELECT a FROM t WHERE (", "SELECT b FROM t WHERE (", Effect.SHAPE),
    ],
)
def test_an_edit_that_looks_smaller_has_its_true_class(before: str, after: str, effect: Effect):
    assert find(before, after) >= effect


def test_a_changed_key_changes_the_grain():
    before, after = "SELECT lower(id) AS id FROM t", "SELECT upper(id) AS id FROM t"
    assert find(before, after) is Effect.VALUES
    assert find(before, after, "id") is Effect.GRAIN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("count_if(d > 15)", "count_if(d > 30)"),
        ("count(*)", "count(DISTINCT id)"),
        ("sum(CASE WHEN d > 15 THEN 1 ELSE 0 END)", "sum(CASE WHEN d > 5 THEN 1 ELSE 0 END)"),
        ("sum(n) OVER (ORDER BY a)", "sum(n) OVER (ORDER BY b)"),
        ("CAST(a AS INT)", "CAST(b AS INT)"),
        ("coalesce(a, 0)", "coalesce(a, 1)"),
        ("a > 1", "b IN (1, 2)"),
        ("lower(a)", "upper(b)"),
    ],
)
def test_an_expression_of_the_same_type_changes_values(before: str, after: str):
    query = "SELECT k, {} AS x FROM t"
    assert find(query.format(before), query.format(after)) is Effect.VALUES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a", "b"),
        ("sum(a)", "sum(b)"),
        ("sum(a)", "avg(a)"),
        ("a * 10", "a * 100"),
        ("CAST(a AS INT)", "CAST(a AS BIGINT)"),
        ("from_json(a, 'x INT')", "from_json(a, 'x STRING')"),
        ("named_struct('a', 1)", "named_struct('b', 1)"),
        ("coalesce(a, 0)", "coalesce(a, '0')"),
        ("round(a, 1)", "round(a, 2)"),
    ],
)
def test_an_expression_that_may_have_another_type_changes_the_shape(before: str, after: str):
    query = "SELECT k, {} AS x FROM t"
    assert find(query.format(before), query.format(after)) is Effect.SHAPE
