"""Conversion of errors to StepErrors: transient or terminal by the exception's type."""

import errno
import os
import re
import socket
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from logdriven_dagster.config.models.types.registered import SOURCES, TARGETS
from logdriven_dagster.config.secrets import redact_start
from logdriven_dagster.engine.spark.dead_sessions import cause_of_death
from logdriven_dagster.engine.spark.errors import JvmException, repeats_its_cause, sentence_of
from logdriven_dagster.engine.spark.jvm_errors import list_jvm_errors
from logdriven_dagster.errors import (
    AttemptLostError,
    DiskFullError,
    EnvironmentStepError,
    LogdrivenError,
    SparkDiedError,
    StepError,
    TerminalStepError,
    TransientStepError,
    UnknownHostError,
    get_driver_message,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine, ExceptionContext

_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = (_PACKAGE, sys.prefix, sysconfig.get_path("stdlib"), "<")
"""Paths of code that the user did not write; "<" stands for generated code."""
_LONGEST = 4000
_LONGEST_CHAIN = 4
_LONGEST_SENTENCE = 300

_HAS_PLACE = re.compile(r":\d+\)$")

TRANSIENT_JAVA = frozenset(
    {
        "java.lang.OutOfMemoryError",
        "java.net.SocketException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
        "java.nio.channels.ClosedChannelException",
        "java.sql.SQLNonTransientConnectionException",
        "java.sql.SQLRecoverableException",
        "java.sql.SQLTransientException",
        "java.util.concurrent.TimeoutException",
        "org.apache.hadoop.net.ConnectTimeoutException",
        "org.apache.spark.shuffle.FetchFailedException",
    }
)
"""Java types, with their subtypes, caused by network, locks or resources."""

_TRANSIENT_SQL_STATES = ("08", "25P03", "40", "53", "55P03", "57P")
"""Connection, idle timeout, rollback, resources, lock not available, shutdown."""

_SQLITE_BUSY = {5, 6}
_SQLITE_BUSY_NAMES = ("[SQLITE_BUSY", "[SQLITE_LOCKED")
_MYSQL_TRANSIENT = {1040, 1205, 1213, 2002, 2003, 2006, 2013}
"""Too many connections, lock wait, deadlock, and unreachable server."""

_RAISED = re.compile(r"(?m)^logdriven_dagster\.errors\.(Transient|Terminal)StepError: (.+)")
"""StepError that our own code raised in a Python worker of Spark; Java only has its text."""

_TRANSIENT_ERRNO = {
    *(errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT),
    *(errno.EBUSY, errno.EREMOTEIO),  # s3fs raises these for SlowDown and InternalError
}

_TRANSIENT_OF_STORES = frozenset(
    {
        *("botocore.HTTPClientError", "botocore.ConnectionError"),
        *("requests.ConnectionError", "requests.Timeout"),
        *("pyiceberg.CommitFailedException", "pyiceberg.CommitStateUnknownException"),
        *("pyiceberg.ServerError", "pyiceberg.ServiceUnavailableError"),
        "pyiceberg.TooManyRequestsError",
    }
)
"""Package and name of catalog and object store errors, matched without an import."""


@contextmanager
def step_errors() -> Iterator[None]:
    """Convert exceptions within the block to StepErrors whose text has no secrets.

    A lost attempt is not a failure of the step: AttemptLostError propagates unchanged.
    """
    try:
        yield
    except AttemptLostError:
        raise
    except StepError as error:
        raise type(error)(redact_start(str(error), _LONGEST)) from None
    except Exception as error:  # noqa: BLE001 - any exception fails the step
        # The original is dropped on purpose: its text may contain secrets, and code that prints a
        # chain of exceptions prints all of them.
        raise step_error(error) from None


def name_database(engine: "Engine", name: str) -> None:
    """Add the database's name to the errors of an engine, for the messages of `step_errors`."""
    from sqlalchemy import event

    @event.listens_for(engine, "handle_error")
    def name_error(context: "ExceptionContext") -> None:
        _name(context.sqlalchemy_exception, name)


@contextmanager
def database_named(name: str) -> Iterator[None]:
    """Add the database's name to errors within the block, where no engine exists yet."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        _name(error, name)
        raise


def _name(error: object, name: str) -> None:
    if error is not None:
        error.database = name  # type: ignore[attr-defined]


def step_error(error: Exception) -> StepError:
    """Convert any error into a StepError: one sentence, an empty line, the original text.

    Returns SparkDiedError if Spark is gone, an EnvironmentStepError if the machine lacks something,
    TransientStepError if a retry may succeed, and TerminalStepError otherwise.
    """
    if cause := cause_of_death(error):
        return SparkDiedError(f"Spark died: {cause}")
    if raised := _find_worker_error(error):
        return raised
    kind = _find_environment_error(error) or (
        TransientStepError if is_transient(error) else TerminalStepError
    )
    sentence = redact_start(_sentence(error), _LONGEST_SENTENCE)
    whole = redact_start(_text(error), _LONGEST - len(sentence) - 2)
    return kind(sentence if whole == sentence else f"{sentence}\n\n{whole}")


_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_SAID_OF_DISKS = tuple(map(os.strerror, _OF_DISKS))
"""Java has no type for a full disk: it reports the text of the operating system."""
_JAVA_OF_HOSTS, _JAVA_OF_IO = "java.net.UnknownHostException", "java.io.IOException"


def _find_environment_error(error: Exception) -> type[EnvironmentStepError] | None:
    """Return the type of an error that the machine or its network causes, or None."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, socket.gaierror):
            return UnknownHostError
        if isinstance(each, OSError) and each.errno in _OF_DISKS:
            return DiskFullError
        each = each.__cause__ or each.__context__
    for thrown in list_jvm_errors(error):
        if _JAVA_OF_HOSTS in thrown.types or f"{_JAVA_OF_HOSTS}:" in thrown.message:
            return UnknownHostError
        is_io = _JAVA_OF_IO in thrown.types or _JAVA_OF_IO in thrown.message
        if is_io and any(text in thrown.message for text in _SAID_OF_DISKS):
            return DiskFullError
    return None


def _find_worker_error(error: Exception) -> StepError | None:
    """Return the StepError that was raised in an executor, or None."""
    for cause in list_jvm_errors(error):
        if found := _RAISED.findall(cause.message):
            kind, text = found[-1]
            error_type = TransientStepError if kind == "Transient" else TerminalStepError
            return error_type(redact_start(text, _LONGEST))
    return None


def is_transient(error: Exception) -> bool:
    """Return whether a retry of the step may succeed, judged by types and codes alone."""
    if isinstance(error, (ConnectionError, TimeoutError, socket.gaierror, URLError, MemoryError)):
        return True
    if _TRANSIENT_OF_STORES.intersection(map(_name_of, type(error).__mro__)):
        return True
    if isinstance(error, OSError):
        return error.errno in _TRANSIENT_ERRNO
    if _is_transient_of_a_type(error):
        return True
    if chain := list_jvm_errors(error):
        return any(map(_is_transient_java, chain))
    return _is_transient_database(error)


def _is_transient_of_a_type(error: Exception) -> bool:
    """Return whether a type of source or target has the answer that a retry may succeed."""
    paths = {part.transient_errors for part in (*SOURCES, *TARGETS)}
    return any(resolve_name(path)(error) for path in paths if path)


def _name_of(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _is_transient_database(error: Exception) -> bool:
    from sqlalchemy.exc import DBAPIError, OperationalError

    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    origin: Any = error.orig
    if origin is not None and origin.args[:1] and origin.args[0] in _MYSQL_TRANSIENT:
        return True  # by number: a lock wait has SQLSTATE HY000, like any other error
    if "sqlstate" in dir(origin):
        # psycopg has no state if the server did not answer.
        unreachable = origin.sqlstate is None and isinstance(error, OperationalError)
        return unreachable or str(origin.sqlstate).startswith(_TRANSIENT_SQL_STATES)
    return getattr(origin, "sqlite_errorcode", 0) & 0xFF in _SQLITE_BUSY


def _is_transient_java(thrown: JvmException) -> bool:
    if TRANSIENT_JAVA.intersection(thrown.types):
        return True
    if "java.sql.SQLException" not in thrown.types:
        return False
    if "org.sqlite.SQLiteException" in thrown.types:
        # Its messages begin with the name of the code, which Spark Connect does not transfer.
        busy = thrown.message.startswith(_SQLITE_BUSY_NAMES)
        return busy if thrown.error_code is None else thrown.error_code & 0xFF in _SQLITE_BUSY
    return str(thrown.sql_state).startswith(_TRANSIENT_SQL_STATES)


def _sentence(error: Exception) -> str:
    """Return the error in one line, for people."""
    if said := get_driver_message(getattr(error, "orig", None)):
        return f"{getattr(error, 'database', 'the database')}: {said}"
    chain = list_jvm_errors(error)
    text = " ".join((sentence_of(chain) if chain else _text(error).partition("\n")[0]).split())
    return text if _HAS_PLACE.search(text) else text + _place(error)


def _text(error: Exception) -> str:
    if isinstance(error, LogdrivenError):
        return str(error)
    if origin := getattr(error, "orig", None):
        # SQLAlchemy appends the statement with its values, and a link.
        database = getattr(error, "database", "")
        return f"{database}: {type(origin).__name__}: {origin}".removeprefix(": ")
    chain = list_jvm_errors(error)
    if not chain:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    telling = [thrown for thrown in chain if not repeats_its_cause(thrown)]
    texts: list[str] = []
    for text in map(_java_text, telling or chain):
        if not any(text in earlier for earlier in texts):
            texts.append(text)
    return "; caused by ".join(texts[:_LONGEST_CHAIN])


def _place(error: Exception) -> str:
    """Return the place in the user's file where a function raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _java_text(thrown: JvmException) -> str:
    message = thrown.message.split("\n\tat ")[0]
    if thrown.name in ("AnalysisException", "ExtendedAnalysisException"):
        message = message.split(";\n")[0]
    return f"{thrown.name}: {message.strip()}".rstrip(": ")
