"""A Spark that has died: what of, and how to make room for another one in this process."""

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
"""The process's session on a server of others."""
_lost: list[Any] = []
"""That session, once its server does not know it any more."""
_lives: list[Callable[[], bool]] = []
"""Tells whether the server of that session is there, if that is known."""
_PATIENCE_SECONDS = 5.0
"""How long a JVM that does not answer any more may take to be gone."""


def cause_of_death(error: Exception) -> str | None:
    """Why the JVM is gone, if it is; one that does not answer may take a moment until it is."""
    process = _process()
    try:
        code = process and process.wait(_PATIENCE_SECONDS if _is_silence(error) else 0)
    except TimeoutExpired:
        code = None
    return _loss_of_a_server(error) if code is None else _cause(code)


def is_dead() -> bool:
    """Whether this process has started a JVM for Spark that is gone, or has lost its server."""
    process = _process()
    if not _is_served():
        _lost.extend(_served)
        _served.clear()
    return bool(_lost) or (process is not None and process.poll() is not None)


def forget() -> None:
    """Make PySpark start another JVM, or connect anew, when a session is asked for next."""
    if _lost:
        session = _lost.pop()
        _forgotten.append(session)
        session.release_session_on_close = False  # nobody is there to release it
        session.stop()
        return
    gateway: Any = internals.gateway()
    with suppress(Exception):
        gateway.shutdown()
    internals.forget_machine()
    _forgotten.append(gateway)


def served_by_others(session: Any, lives: Callable[[], bool] | None = None) -> None:
    """Remember the process's session on a server that may be gone without its session's doing.

    `lives` tells whether it is there, where that is known.
    """
    _served[:], _lost[:] = [session], []
    _lives[:] = [lives] if lives is not None else []


def _is_served() -> bool:
    """Whether the server of that session is there, as far as it is known."""
    return all(lives() for lives in _lives)


def number() -> int:
    """How many Sparks of this process were forgotten: sessions from before the last are useless."""
    return len(_forgotten)


def _loss_of_a_server(error: Exception) -> str | None:
    """Say so if the server of others does not know the process's session any more."""
    lost = any(map(session_is_lost, _links(error)))
    if (_is_served() and not lost) or not (_served or _lost):
        return None
    _lost.extend(_served)
    _served.clear()
    return "its server does not answer, or was started anew"


def _cause(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"it was killed by {name}{hint}"


def _is_silence(error: Exception) -> bool:
    """Whether Py4J got no answer, or no connection, from its JVM, whatever was made of that."""
    return any(_is_own_silence(link) for link in _links(error))


def _is_own_silence(error: BaseException) -> bool:
    """Judge one error by its class: of a lost answer Py4J also says "… does not exist"."""
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
    """The JVM that PySpark has started; None where it has not."""
    return getattr(internals.gateway(), "proc", None)
