"""The interface of listeners, which observe windows, and the calls to all of them.

A pass depends on this interface only; `execution.listeners.registered` has the listeners.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.model.attempts import Attempt, Owner

logger = logging.getLogger(__name__)

Report: TypeAlias = Callable[..., None]
"""A function that adds attributes, given as keywords, to the observed part."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The reason for which a runner stopped during a pass, and the step."""

    step: str
    application_id: str | None
    """The ID of the engine's application, if it ran."""
    reason: str


class WindowListener:
    """Base class of listeners: every method does nothing; override those that you need.

    There is one instance in a process, for all projects and all threads. Methods are called in the
    thread that runs the windows, so they must return quickly. An exception of a method is logged
    once and does not affect the windows.
    """

    def on_claim(self, attempts: Sequence[Attempt]) -> None:
        """Receive claimed attempts at adjoining windows of one table, usually a single one."""

    def on_end(self, events: Sequence[WindowEvent], application_id: str | None) -> None:
        """Receive the outcomes of the attempts of a pass, once they are in the run log.

        `events` are WindowSucceeded, WindowFailed, WindowSetBack or WindowLost, one for each
        attempt. `application_id` is that of the engine, None if it did not run.
        """

    def on_lineage(self, events: Sequence[WindowEvent]) -> None:
        """Receive the events of `on_end` again, the successful ones with their lineage."""

    def on_interruption(self, attempts: Sequence[Attempt], interruption: Interruption) -> None:
        """Receive attempts that are DISCARDED in the run log because their runner stops."""

    def observe_run(self, project: str, owner: Owner) -> AbstractContextManager[object]:
        """Return a context around a run, such as a catch-up. Runs may be nested."""
        _ = project, owner
        return nullcontext()

    def observe_windows(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        """Return a context around claimed attempts, up to and including `on_end`.

        An exception passes through it if the attempts are interrupted.
        """
        _ = attempts
        return nullcontext()

    def observe_work(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        """Return a context around this thread's work on attempts, within `observe_windows`."""
        _ = attempts
        return nullcontext()

    def observe_part(self, name: str, owner: Owner | None = None) -> AbstractContextManager[Report]:
        """Return a context around a part of the work: `step load`, `check c`, `publish load`.

        Its value accepts attributes of the part. `owner` is that of the run to which the part
        belongs; None if it is a part of the work within `observe_work`.
        """
        _ = name, owner
        return nullcontext(_ignore)


class Listeners(WindowListener):
    """Caller of several listeners. Its methods never raise; a failure is logged once."""

    def __init__(self, listeners: Sequence[WindowListener] = ()) -> None:
        self._overriding = {
            method: tuple(each for each in listeners if _overrides(each, method))
            for method in vars(WindowListener)
            if method.startswith(("on_", "observe_"))
        }
        """Method → the listeners that override it; most methods have few."""
        self._reported: set[tuple[str, str]] = set()

    def on_claim(self, attempts: Sequence[Attempt]) -> None:
        self._call("on_claim", attempts)

    def on_end(self, events: Sequence[WindowEvent], application_id: str | None) -> None:
        self._call("on_end", events, application_id)

    def on_lineage(self, events: Sequence[WindowEvent]) -> None:
        self._call("on_lineage", events)

    def on_interruption(self, attempts: Sequence[Attempt], interruption: Interruption) -> None:
        self._call("on_interruption", attempts, interruption)

    def observe_run(self, project: str, owner: Owner) -> AbstractContextManager[object]:
        return _Observation(self, "observe_run", project, owner)

    def observe_windows(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        return _Observation(self, "observe_windows", attempts)

    def observe_work(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        return _Observation(self, "observe_work", attempts)

    def observe_part(self, name: str, owner: Owner | None = None) -> AbstractContextManager[Report]:
        return _Observation(self, "observe_part", name, owner)

    def overriding(self, method: str) -> tuple[WindowListener, ...]:
        """Return the listeners that override a method."""
        return self._overriding[method]

    def _call(self, method: str, *arguments: object) -> None:
        for listener in self._overriding[method]:
            self.call(listener, getattr(listener, method), *arguments)

    def call(
        self,
        listener: WindowListener,
        call: Callable[..., Any],
        *arguments: object,
        **attributes: Any,
    ) -> Any:
        """Return the result of a method; None, with a warning, if it raises."""
        try:
            return call(*arguments, **attributes)
        except Exception as error:  # noqa: BLE001 - as above; the window goes on
            self._report(listener, error)
            return None

    def _report(self, listener: WindowListener, error: Exception) -> None:
        """Warn of an error, once for each listener and kind of error."""
        name, kind = type(listener).__qualname__, type(error).__name__
        if (name, kind) not in self._reported:
            self._reported.add((name, kind))
            text = redact(in_brief(f"{kind}: {error}"))
            logger.warning("listener_failed: %s: %s", name, text)


class _Observation(AbstractContextManager[Report]):
    """The contexts of all listeners as one. Its value passes attributes on to theirs."""

    def __init__(self, listeners: Listeners, method: str, *arguments: object) -> None:
        self._listeners, self._method, self._arguments = listeners, method, arguments
        self._entered: list[tuple[WindowListener, Any]] = []
        self._reports: list[tuple[WindowListener, Any]] = []

    def __enter__(self) -> Report:
        for listener in self._listeners.overriding(self._method):
            self._listeners.call(listener, self._enter, listener)
        return self._report

    def __exit__(self, *cause: object) -> None:
        for listener, context in reversed(self._entered):
            self._listeners.call(listener, context.__exit__, *cause)

    def _enter(self, listener: WindowListener) -> None:
        context = getattr(listener, self._method)(*self._arguments)
        self._reports.append((listener, context.__enter__()))
        self._entered.append((listener, context))

    def _report(self, **attributes: Any) -> None:
        for listener, report in self._reports:
            self._listeners.call(listener, report, **attributes)


def _overrides(listener: WindowListener, method: str) -> bool:
    return getattr(type(listener), method) is not getattr(WindowListener, method)


def _ignore(**_attributes: Any) -> None:
    pass
