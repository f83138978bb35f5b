"""Timers around functions of the product, put there from outside."""

import importlib
import inspect
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any


class Stopwatch:
    """Seconds spent in named functions, without what they spend in other named functions.

    Each thread has its own nesting: with one window at a time, what runs beside it is not timed.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._threads = threading.local()

    def time(self, name: str, place: str) -> None:
        """Put a timer around `package.module:Class.function` from here on."""
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(module)
        *parents, attribute = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, attribute, self._timed(name, getattr(owner, attribute)))

    def taken(self) -> dict[str, float]:
        """The seconds since the last call."""
        seconds = dict(self.seconds)
        self.seconds.clear()
        return seconds

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # What `contextlib.contextmanager` decorates; Spark's sessions are contexts, too.
        is_context = inspect.isgeneratorfunction(inspect.unwrap(function))

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._running(name):
                result = function(*args, **kwargs)
            return self._around(name, result) if is_context else result

        return timed

    @contextmanager
    def _running(self, name: str) -> Any:
        began, inner = time.perf_counter(), self._nesting
        inner.append(0.0)
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.seconds[name] += took - inner.pop()
            if inner:
                inner[-1] += took

    @property
    def _nesting(self) -> list[float]:
        """What the timers that run in this thread have seen in others within them."""
        if not hasattr(self._threads, "inner"):
            self._threads.inner = []
        return self._threads.inner

    @contextmanager
    def _around(self, name: str, inner: AbstractContextManager[Any]) -> Any:
        """The entry and the exit of a context, not what is done within it."""
        with self._running(name):
            value = inner.__enter__()
        try:
            yield value
        except BaseException as error:
            with self._running(name):
                swallowed = inner.__exit__(type(error), error, error.__traceback__)
            if not swallowed:
                raise
        else:
            with self._running(name):
                inner.__exit__(None, None, None)
