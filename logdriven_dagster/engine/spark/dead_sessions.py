"""Detection of dead Spark sessions, and cleanup before this process starts another one."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.connect.errors import session_is_lost

_forgotten: list[Any] = []
_served: list[Any] = []
"""The process's session on a server that can end independently of the session."""
_lost: list[Any] = []
"""That session, once its server no longer knows it."""
_lives: list[Callable[[], bool]] = []
"""Function that returns whether the server of that session is alive, if that can be checked."""
_PATIENCE_SECONDS = 5.0
"""Time that an unresponsive JVM may take to exit."""


def cause_of_death(error: Exception) -> str | None:
    """Return why the JVM or server is gone; None if it is not.

    If `error` shows that the JVM does not answer, wait a few seconds for its exit.
    """
    process = _process()
    try:
        code = process and process.wait(_PATIENCE_SECONDS if _is_silence(error) else 0)
    except TimeoutExpired:
        code = None
    return _loss_of_a_server(error) if code is None else _cause(code)


def is_dead() -> bool:
    """Return whether the JVM that this process started has ended, or its server was lost."""
    process = _process()
    if not _is_served():
        _lost.extend(_served)
        _served.clear()
    return bool(_lost) or (process is not None and process.poll() is not None)


def forget() -> None:
    """Reset PySpark, so that the next session starts another JVM or connects again."""
    if _lost:
        session = _lost.pop()
        _forgotten.append(session)
        session.release_session_on_close = False  # no server is there to release it
        session.stop()
        # With it, PySpark could not start a classic session, as `remote: auto` does now.
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        return
    gateway: Any = internals.gateway()
    with suppress(Exception):
        gateway.shutdown()
    internals.forget_machine()
    _forgotten.append(gateway)


def register_session(session: Any, lives: Callable[[], bool] | None = None) -> None:
    """Record the process's session on a server that can end independently of the session.

    `lives` returns whether the server is alive, where that can be checked.
    """
    _served[:], _lost[:] = [session], []
    _lives[:] = [lives] if lives is not None else []


def _is_served() -> bool:
    """Return whether the server of that session is alive, as far as it can be checked."""
    return all(lives() for lives in _lives)


def number() -> int:
    """Return how many Spark sessions of this process have died; older sessions are useless."""
    return len(_forgotten)


def _loss_of_a_server(error: Exception) -> str | None:
    """Return the cause if the session's server has ended or no longer knows the session."""
    lost = any(map(session_is_lost, _links(error)))
    if (_is_served() and not lost) or not (_served or _lost):
        return None
    _lost.extend(_served)
    _served.clear()
    return "its server does not answer, or was restarted"


def _cause(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the system does if it is out of memory" if name == "SIGKILL" else ""
    return f"it was killed by {name}{hint}"


def _is_silence(error: Exception) -> bool:
    """Return whether Py4J got no answer or connection from its JVM, in any error of the chain."""
    return any(_is_own_silence(link) for link in _links(error))


def _is_own_silence(error: BaseException) -> bool:
    """Classify one error by its class: for a lost answer, Py4J also reports "… does not exist"."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError)
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ConnectionError) and any("py4j" in f.filename for f in frames)


def _links(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _process() -> Any:
    """Return the JVM process that PySpark has started; None if there is none."""
    return getattr(internals.gateway(), "proc", None)
