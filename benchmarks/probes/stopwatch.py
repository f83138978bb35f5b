"""Timers around functions of the product, put there from outside."""

import importlib
import inspect
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass
class _Running:
    name: str
    others: float = 0.0
    """Seconds in timers within this one."""


class Stopwatch:
    """Seconds and calls to Java of named functions, without those of others that they call.

    Each thread has its own nesting: with one window at a time, what runs beside it is not timed.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        """Each is a round trip to the JVM."""
        self._threads = threading.local()

    def time(self, name: str, place: str) -> None:
        """Put a timer around `package.module:Class.function` from here on."""
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(module)
        *parents, attribute = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, attribute, self._timed(name, getattr(owner, attribute)))

    def count_calls(self) -> None:
        """Count round trips to the JVM from here on."""
        from py4j.java_gateway import GatewayClient

        send = GatewayClient.send_command

        def counted(*args: Any, **kwargs: Any) -> Any:
            names = self._nesting
            self.calls[names[-1].name if names else "in threads"] += 1
            return send(*args, **kwargs)

        GatewayClient.send_command = counted

    def taken(self) -> tuple[dict[str, float], Counter[str]]:
        """Seconds and calls since this was asked for last."""
        told = dict(self.seconds), Counter(self.calls)
        self.seconds.clear()
        self.calls.clear()
        return told

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
        nesting, running = self._nesting, _Running(name)
        nesting.append(running)
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            nesting.pop()
            self.seconds[name] += took - running.others
            if nesting:
                nesting[-1].others += took

    @property
    def _nesting(self) -> list[_Running]:
        """The timers that run in this thread, the innermost last."""
        if not hasattr(self._threads, "nesting"):
            self._threads.nesting = []
        return self._threads.nesting

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
