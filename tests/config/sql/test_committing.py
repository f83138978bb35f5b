"""Statements that would end the transaction they are promised are refused by their kind."""

import pytest

from logdriven_dagster.config.sql.committing import find_ending_statement

STEP = """
    table: ods.t
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        sql: SELECT 1 AS one
        {field}
"""
MARIADB = "mysql+pymysql://me@nowhere/shop"
POSTGRES = "postgresql://me@nowhere/shop"


def problems(folder, field, url=MARIADB):
    folder.write("logdriven.yaml", f"project: p\nconnections: {{shop: {{url: '{url}'}}}}")
    folder.write("tables/t.yaml", STEP.format(field=field))
    return folder.mistakes()


def pre_sql(sql):
    return f"target: {{type: jdbc, connection: shop, table: t, pre_sql: [{sql!r}]}}"


def before(*sql, extra=""):
    script = f"{{connection: shop, sql: {list(sql)!r}{extra}}}"
    return f"commit_before_read: [{script}]\n        target: {{type: iceberg}}"


def test_truncate_in_the_publication_is_refused_where_it_commits_by_itself_k19(folder):
    problem = problems(folder, pre_sql("TRUNCATE TABLE t"))
    assert "steps[0].target.pre_sql[0]: TRUNCATE commits by itself on mysql" in problem
    assert "use DELETE FROM" in problem


def test_statements_that_end_a_transaction_are_refused_on_every_database(folder):
    assert "remove COMMIT" in problems(folder, pre_sql("DELETE FROM t; COMMIT"), POSTGRES)


def test_what_belongs_to_the_transaction_is_accepted(folder):
    folder.write("logdriven.yaml", f"project: p\nconnections: {{shop: {{url: '{POSTGRES}'}}}}")
    folder.write("tables/t.yaml", STEP.format(field=pre_sql("TRUNCATE TABLE t")))
    assert folder.load()


def test_several_statements_before_the_read_are_one_transaction_by_default(folder):
    field = before("TRUNCATE s", "INSERT INTO s SELECT 1")
    assert "transaction: false executes each statement by itself" in problems(folder, field)
    apart = before("TRUNCATE s", "INSERT INTO s SELECT 1", extra=", transaction: false")
    folder.write("tables/t.yaml", STEP.format(field=apart))
    assert folder.load()


def test_so_are_those_of_a_maintenance_job(folder):
    folder.write("logdriven.yaml", f"project: p\nconnections: {{shop: {{url: '{MARIADB}'}}}}")
    folder.write(
        "jobs/sweep.yaml",
        """
        job: sweep
        type: maintenance
        steps:
          - {exec_order: 1, step: s, connection: shop, sql: [DELETE FROM a, OPTIMIZE TABLE a]}
        """,
    )
    assert "OPTIMIZE ends the transaction of these statements" in folder.mistakes()


def test_connections_of_statements_before_the_read_are_known(folder):
    field = before("DELETE FROM s").replace("shop", "shopp")
    assert "unknown connection 'shopp'; did you mean 'shop'?" in problems(folder, field)


@pytest.mark.parametrize(
    ("sql", "backend", "word"),
    [
        ("DELETE FROM t", "mariadb", None),
        ("-- TRUNCATE\nDELETE FROM t WHERE a = 'TRUNCATE; COMMIT'", "mariadb", None),
        ("/*!40101 TRUNCATE t */", "mariadb", "TRUNCATE"),
        ("DELETE FROM a; truncate b", "mariadb", "TRUNCATE"),
        ("RENAME TABLE a TO b", "mysql", "RENAME"),
        ("CREATE TEMPORARY TABLE x (a INT)", "mysql", None),
        ("CREATE TABLE x (a INT)", "mysql", "CREATE"),
        ("SET autocommit = 1", "mysql", "SET"),
        ("SET @@session.autocommit = 1", "mysql", "SET"),
        ("SET @a = 1", "mysql", None),
        ("TRUNCATE t", "postgresql", None),
        ("ROLLBACK TO SAVEPOINT s", "postgresql", None),
        ("END", "postgresql", "END"),
        ("PREPARE TRANSACTION 'x'", "postgresql", "PREPARE"),
        ("PREPARE q AS SELECT 1", "postgresql", None),
        ("DROP INDEX i", "oracle", "DROP"),
        ("CREATE TEMPORARY TABLE x (a INT); COMMIT", "mysql", "COMMIT"),
        ("CREATE TABLE x (a INT); COMMIT; DELETE FROM t", "postgresql", "COMMIT"),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END", "sqlite", None),
        ("${anything}", "mysql", None),
    ],
)
def test_a_statement_is_known_by_its_first_words(sql, backend, word):
    assert find_ending_statement(sql, backend) == word
