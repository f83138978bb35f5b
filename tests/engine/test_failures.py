"""What fails becomes a StepError: transient or terminal by type, concise, free of secrets."""

import re
import socket
import sqlite3
import threading
from urllib.error import URLError

import pytest
import sqlalchemy as sa

from logdriven_dagster.config.secrets import remember
from logdriven_dagster.engine.failures import is_transient, step_error
from logdriven_dagster.errors import StepError, TerminalStepError, TransientStepError
from tests.builders import day
from tests.engine.laboratory import Lab, jobs_at_work


def failure(lab: Lab, sql: str | None = None, **step: object) -> StepError:
    lab.table("ods.t", {"target": {"type": "parquet"}, **({"sql": sql} if sql else {}), **step})
    with pytest.raises(StepError) as caught:
        lab.run("ods.t", day(1))
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.connect
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELEC 1", r"PARSE_SYNTAX_ERROR"),
        ("SELECT nope FROM VALUES (1) AS t(a)", r"UNRESOLVED_COLUMN.*`nope`"),
        ("SELECT * FROM nowhere", r"TABLE_OR_VIEW_NOT_FOUND.*`nowhere`"),
        ("SELECT CAST('x' AS INT) AS a FROM range(3)", r"CAST_INVALID_INPUT.*'x'"),
        ("SELECT 1 / (id - 1) AS a FROM range(3)", r"DIVIDE_BY_ZERO"),
        (
            "SELECT IF(id < 1, raise_error('the data is bad'), 1) AS a FROM range(1)",
            r"the data is bad",
        ),
        ("SELECT NULL AS a", r"column a is NULL without a type"),
        ("SELECT 1 AS a, 2 AS A", r"two columns named a"),
        ("SELECT :nope", r"UNBOUND_SQL_PARAMETER"),
    ],
)
def test_bad_sql_and_bad_data_are_terminal_and_told_in_a_few_lines(lab: Lab, sql: str, text: str):
    error = failure(lab, sql)
    assert isinstance(error, TerminalStepError)
    assert re.search(text, str(error))
    assert len(str(error)) < 800
    assert "\tat " not in str(error)


def test_a_missing_file_is_terminal_and_named(lab: Lab):
    error = failure(lab, source={"type": "csv", "path": "nowhere.csv"})
    assert isinstance(error, TerminalStepError)
    assert "nowhere.csv" in str(error)


def test_a_malformed_record_fails_unless_somebody_says_otherwise(lab: Lab):
    lab.file("a.csv", "1\nx\n")
    source = {"type": "csv", "path": "a.csv", "columns": "a INT"}
    assert "a.csv, line 2: column a holds 'x', which is no int" in str(failure(lab, source=source))


def test_a_header_that_does_not_match_the_columns_is_refused(lab: Lab):
    lab.file("a.csv", "b,a\n1,2\n")
    source = {"type": "csv", "path": "a.csv", "header": True, "columns": "a INT, b INT"}
    assert "line 1: the header is b, a, the columns are a, b" in str(failure(lab, source=source))


@pytest.mark.connect
def test_a_database_that_cannot_be_reached_is_transient(lab: Lab):
    lab.settings["connections"]["pg"] = {"url": "postgresql://u@127.0.0.1:1/x"}
    error = failure(lab, source={"type": "jdbc", "connection": "pg", "table": "t"})
    assert isinstance(error, TransientStepError)
    assert "Connection refused" in str(error)


def test_a_table_that_a_database_lacks_is_terminal(lab: Lab):
    error = failure(lab, source={"type": "jdbc", "connection": "lite", "table": "nowhere"})
    assert isinstance(error, TerminalStepError)
    assert "nowhere" in str(error)


@pytest.mark.connect
def test_secrets_never_show(lab: Lab):
    remember("hunter2secret")
    error = failure(lab, "SELECT CAST('hunter2secret' AS INT) AS a FROM range(1)")
    assert "hunter2secret" not in str(error)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        socket.gaierror(),
        URLError("the server is away"),
        MemoryError(),
        OSError(28, "full"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_network_and_resources_are_transient(error: Exception):
    assert isinstance(step_error(error), TransientStepError)


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), FileNotFoundError(2, "x")])
def test_everything_else_is_terminal(error: Exception):
    assert isinstance(step_error(error), TerminalStepError)


def test_a_locked_sqlite_database_is_transient(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}", connect_args={"timeout": 0})
    with sqlite3.connect(tmp_path / "a.db") as other:
        other.execute("CREATE TABLE t (a)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sa.exc.OperationalError) as caught, engine.begin() as conn:
            conn.execute(sa.text("INSERT INTO t VALUES (1)"))
    assert is_transient(caught.value)


def test_an_unknown_sqlite_table_is_terminal(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(sa.exc.OperationalError) as caught, engine.begin() as conn:
        conn.execute(sa.text("SELECT * FROM nowhere"))
    assert not is_transient(caught.value)


class _Terminated(BaseException):
    """As Dagster's interruption is one."""


@pytest.mark.connect
def test_an_interruption_cancels_the_running_jobs_within_seconds(lab: Lab, monkeypatch):
    lab.spark.range(1).count()
    sql = "SELECT count(*) AS n FROM range(0, 1000000000000, 1, 2) WHERE hash(id) = 3"
    lab.table("ods.t", {"sql": sql, "target": {"type": "parquet"}})
    polls = iter(range(30))

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        original(self, timeout)
        if timeout == 0.1 and next(polls, None) == 15:
            raise _Terminated

    original = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(_Terminated):
        lab.run("ods.t", day(1))
    monkeypatch.undo()
    assert jobs_at_work(lab.spark) == []
    assert not list((lab.root / ".logdriven/warehouse/ods/t/data").iterdir())
