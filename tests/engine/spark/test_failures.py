"""What fails becomes a StepError: transient or terminal by type, concise, free of secrets."""

import errno
import re
import socket
import sqlite3
import threading
import time
from urllib.error import URLError

import pytest
import sqlalchemy as sa

from logdriven_dagster.config.secrets import remember
from logdriven_dagster.engine import failures
from logdriven_dagster.engine.failures import is_transient, step_error
from logdriven_dagster.engine.spark.errors import JvmException, sentence_of
from logdriven_dagster.errors import (
    DiskFullError,
    EnvironmentStepError,
    StepError,
    TerminalStepError,
    TransientStepError,
    UnknownHostError,
    in_brief,
)
from tests.builders import day
from tests.engine.laboratory import Lab, jobs_at_work


def failure(lab: Lab, sql: str | None = None, **step: object) -> StepError:
    lab.table("ods.t", {"target": {"type": "parquet"}, **({"sql": sql} if sql else {}), **step})
    with pytest.raises(StepError) as caught:
        lab.run("ods.t", day(1))
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.sampled
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
def test_bad_sql_and_bad_data_are_terminal_and_reported_in_a_few_lines(
    lab: Lab, sql: str, text: str
):
    error = failure(lab, sql)
    assert isinstance(error, TerminalStepError)
    assert re.search(text, str(error))
    assert len(str(error)) < 800
    assert "\tat " not in str(error)


SENTENCES = {
    "SELEC 1": "the query has a syntax error at or near 'SELEC' (line 1, column 1 of the query)",
    "SELECT orgin FROM VALUES (1) AS t(origin)": "unknown column orgin (line 1, column 8 of "
    "the query); did you mean origin?",
    "SELECT 1 AS a,\n b FROM range(1)": "unknown column b (line 2, column 2 of the query); "
    "did you mean id?",
    "SELECT * FROM ods.nowhere": "unknown table ods.nowhere (line 1, column 15 of the query); "
    "a query can read source, earlier steps and the tables of depends_on; "
    "a source of type table, those of Spark's catalogs",
    "SELECT date_tunc(now()) AS a": "unknown function date_tunc (line 1, column 8 of the query)",
    "SELECT substring() AS a": "the function substring takes 2, 3 arguments, not 0 (line 1, "
    "column 8 of the query)",
    "SELECT id FROM range(1) a JOIN range(1) b ON a.id = b.id": "the column id is in more than one "
    "table: a.id, b.id; add the table's name (line 1, column 8 of the query)",
    "SELECT CAST(concat('x', id) AS INT) AS a FROM range(1)": "the value 'x0' is not of type INT "
    "in CAST(concat('x', id) AS INT); correct it, or use try_cast to get NULL instead",
    "SELECT CAST(id + 3000000000 AS INT) AS a FROM range(1)": "the value 3000000000 is too large "
    "for type INT",
    "SELECT CAST((id + 1000) AS DECIMAL(5, 2)) AS a FROM range(1)": "the value 1000 is too large "
    "for type DECIMAL(5, 2) in CAST((id + 1000) AS DECIMAL(5, 2))",
    "SELECT 1 / (id - 1) AS a FROM range(3)": "division by zero in 1 / (id - 1); use try_divide to "
    "get NULL instead",
    "SELECT array(1)[id + 1] AS a FROM range(1)": "an array of 1 elements has no element 1 in "
    "array(1)[id + 1]",
    "SELECT IF(id = 0, raise_error('the data is bad'), 1) AS a FROM range(1)": "the data is bad",
    "SELECT :nope AS a": "the query uses the unknown parameter :nope",
    "SELECT id, count(*) AS n FROM range(3)": "The query does not include a GROUP BY clause. Add "
    "GROUP BY or turn it into the window functions using OVER clauses (line 1, column 1 of the "
    "query)",
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("sql", SENTENCES)
def test_an_error_of_a_query_is_reported_in_one_sentence(lab: Lab, sql: str):
    sentence, empty, *rest = str(failure(lab, sql)).splitlines()
    assert sentence == SENTENCES[sql]
    assert empty == ""
    assert rest  # what Spark said


FILES = {
    ("a.csv", "1,2\n3,ten\n"): "{path}, line 2: column b holds 'ten', not a valid int; "
    "fix the file, or accept it with mode: PERMISSIVE, which counts malformed records",
    ("a.json", '{"a": 1, "b": "ten"}\n'): "{path}, line 1: column b holds 'ten', not a valid int; "
    "fix the file, or accept it with mode: PERMISSIVE, which counts malformed records",
    ("a.parquet", "no Parquet at all"): "cannot read the file {path}: it is not a Parquet file",
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize(("name", "text"), FILES)
def test_an_error_of_a_file_names_it_and_the_value(lab: Lab, name: str, text: str):
    path = lab.file(name, text)
    source: dict[str, object] = {"type": path.suffix[1:], "path": name, "columns": "a INT, b INT"}
    error = failure(lab, source=source)
    assert in_brief(str(error)) == FILES[name, text].format(path=path)


@pytest.mark.connect
def test_an_error_of_a_python_function_names_its_line(lab: Lab):
    lab.file("tables/own.py", "def own(spark):\n    return spark.nothing.at_all\n")
    error = in_brief(str(failure(lab, python="own.py:own")))
    assert error.endswith("tables/own.py:2)")


@pytest.mark.usefixtures("long")
@pytest.mark.connect
def test_an_error_of_a_function_in_a_worker_names_its_line(lab: Lab):
    lab.file(
        "tables/own.py",
        "from pyspark.sql.functions import udf\n"
        "@udf('int')\n"
        "def broken(value):\n"
        "    raise ValueError(f'no good: {value}')\n"
        "def own(spark):\n"
        "    return spark.range(1).select(broken('id').alias('a'))\n",
    )
    error = in_brief(str(failure(lab, python="own.py:own")))
    assert re.fullmatch(r"ValueError: no good: 0 \(.*tables/own.py:4\)", error)


def test_a_missing_file_is_terminal_and_named(lab: Lab):
    error = failure(lab, source={"type": "csv", "path": "nowhere.csv"})
    assert isinstance(error, TerminalStepError)
    assert "nowhere.csv" in str(error)


@pytest.mark.parametrize("path", ["s3a://b/x", "gs://b/x", "abfss://c@a.example/x"])
def test_a_store_without_its_hadoop_connector_names_what_is_missing(lab: Lab, path: str):
    error = failure(lab, source={"type": "parquet", "path": path})
    assert isinstance(error, TerminalStepError)
    assert "put the Hadoop connector of this store (hadoop-aws" in str(error).splitlines()[0]


def test_a_malformed_record_fails_by_default(lab: Lab):
    lab.file("a.csv", "1\nx\n")
    source = {"type": "csv", "path": "a.csv", "columns": "a INT"}
    assert "a.csv, line 2: column a holds 'x', not a valid int" in str(failure(lab, source=source))


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


def test_stores_and_catalogs_that_fail_or_do_not_answer_are_transient():
    import botocore.exceptions
    import pyiceberg.exceptions
    import requests

    transient = [
        botocore.exceptions.EndpointConnectionError(endpoint_url="http://lake"),
        botocore.exceptions.ReadTimeoutError(endpoint_url="http://lake"),
        requests.ConnectionError(),
        requests.ReadTimeout(),
        pyiceberg.exceptions.CommitFailedException(),
        pyiceberg.exceptions.CommitStateUnknownException(),
        pyiceberg.exceptions.ServerError(),
        pyiceberg.exceptions.ServiceUnavailableError(),
        OSError(errno.EBUSY, "Please reduce your request rate"),
    ]
    assert all(map(is_transient, transient))
    refused = [pyiceberg.exceptions.ForbiddenError(), PermissionError(errno.EACCES, "AccessDenied")]
    assert not any(map(is_transient, refused))


@pytest.mark.usefixtures("slow")
def test_a_server_that_does_not_answer_is_transient():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port, limit = silent.getsockname()[1], {"connect_timeout": 2}
        engine = sa.create_engine(f"postgresql+psycopg://u@127.0.0.1:{port}/x", connect_args=limit)
        with pytest.raises(sa.exc.OperationalError) as caught:
            engine.connect()
    assert is_transient(caught.value)


def test_an_unknown_sqlite_table_is_terminal(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(sa.exc.OperationalError) as caught, engine.begin() as conn:
        conn.execute(sa.text("SELECT * FROM nowhere"))
    assert not is_transient(caught.value)


def test_an_error_of_a_database_is_one_sentence_and_keeps_its_exception(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(sa.exc.OperationalError) as caught, engine.begin() as conn:
        conn.execute(sa.text("SELECT * FROM nowhere"))
    sentence, _, whole = str(step_error(caught.value)).partition("\n\n")
    assert sentence.startswith("the database: no such table: nowhere")
    assert whole == "OperationalError: no such table: nowhere"


def test_a_value_that_a_column_of_mariadb_does_not_store_is_reported_with_the_column():
    message = (
        "(conn=7) Incorrect datetime value: '2040-01-02 17:00:00' for column "
        "`shop`.`t__staging_7_ab12cd`.`v` at row 1"
    )
    thrown = JvmException(("java.sql.BatchUpdateException", "java.sql.SQLException"), message)
    assert sentence_of([thrown]) == (
        "column v: Incorrect datetime value: '2040-01-02 17:00:00'; convert the value in the "
        "step's SQL, or change the column"
    )


def test_a_column_that_a_source_lacks_is_reported_with_the_field_that_names_it(lab: Lab):
    lab.file("a.csv", "b,at\n1,2022-01-01\n")
    source = {"type": "csv", "path": "a.csv", "header": True, "window_column": "att"}
    told = "the source has no column att, its window_column; it has at, b"
    assert str(failure(lab, source=source)).startswith(told)


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
    assert not list((lab.warehouse / "ods/t/data").glob("*"))


def test_a_full_disk_is_named_in_any_error_text():
    """As Spark 4.3 reports it, seen on a full file system."""
    chain = [
        JvmException(
            ("org.apache.spark.SparkException", "java.lang.Exception"),
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/x. SQLSTATE: 58030",
            "TASK_WRITE_FAILED",
            parameters={"path": "file:/x"},
        ),
        JvmException(("com.univocity.TextWritingException",), "Error writing row.\nInternal state"),
        JvmException(("org.apache.hadoop.fs.FSError",), "java.io.IOException: No space left"),
        JvmException(("java.io.IOException",), "No space left on device"),
    ]
    assert sentence_of(chain) == "Spark cannot write to /x: IOException: No space left on device"


def _in_context(inner: Exception) -> Exception:
    """As libraries raise an error of their own while they handle that of the system."""
    error = ValueError("cannot ask the server")
    error.__context__ = inner
    return error


@pytest.mark.parametrize(
    ("error", "need"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk"),
        (OSError(errno.EROFS, "Read-only file system"), "disk"),
        (socket.gaierror(-2, "Name or service not known"), "network"),
        (_in_context(socket.gaierror(-3, "Temporary failure in name resolution")), "network"),
    ],
)
def test_what_the_machine_lacks_is_an_error_of_the_environment(error: Exception, need: str):
    made = step_error(error)
    assert isinstance(made, EnvironmentStepError)
    assert made.need == need


@pytest.mark.parametrize(
    ("thrown", "kind"),
    [
        (JvmException(("java.io.IOException",), "No space left on device"), DiskFullError),
        (
            JvmException(
                ("org.apache.spark.SparkException",),
                "Job aborted: java.io.IOException: No space left on device\n\tat x",
            ),
            DiskFullError,
        ),
        (JvmException(("java.net.UnknownHostException",), "nn1"), UnknownHostError),
        (JvmException(("java.io.IOException",), "the stream is closed"), None),
        (JvmException(("X",), "the value 'No space left on device' is no number"), None),
    ],
)
def test_errors_of_the_environment_are_known_in_java(monkeypatch, thrown, kind):
    monkeypatch.setattr(failures, "list_jvm_errors", lambda _error: (thrown,))
    made = step_error(ValueError("of Java"))
    assert type(made) is kind if kind else not isinstance(made, EnvironmentStepError)


def test_a_huge_value_in_an_error_causes_no_delay():
    begun = time.monotonic()
    told = str(step_error(ValueError(f"cannot cast {'a://b:' * 50_000}")))
    assert time.monotonic() - begun < 2
    assert len(told) <= 4000


def test_an_encoding_that_an_older_spark_cannot_read_is_reported_with_its_fix():
    file = {"path": "file:///data/f.parquet"}
    cause = ("org.apache.spark.SparkUnsupportedOperationException",)
    text = "Unsupported encoding: BYTE_STREAM_SPLIT"
    chain = [
        JvmException(("org.apache.spark.SparkException",), "", "FAILED_READ_FILE", parameters=file),
        JvmException(cause, text, "_LEGACY_ERROR_TEMP_3189"),
    ]
    found = sentence_of(chain)
    assert "cannot read the file /data/f.parquet: its columns have the encoding BYTE" in found
    assert "enableVectorizedReader: false in spark.config, or use Spark 4.3 or newer" in found
