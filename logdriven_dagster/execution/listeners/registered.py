"""The registry of listeners: built-in ones, and those that installed packages register.

A package registers a class as an entry point of the group `logdriven.listeners`
(docs/listeners.md). A listener that cannot be used is omitted, with a warning.
"""

import logging
from functools import cache
from importlib.metadata import EntryPoint

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.entry_points import entry_points_of
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.listeners.log_lines import LogLines
from logdriven_dagster.execution.window.listeners import Listeners, WindowListener

GROUP = "logdriven.listeners"

logger = logging.getLogger(__name__)


@cache
def load_installed_listeners() -> Listeners:
    """Return the listeners of this process, which are created by the first call."""
    return Listeners([LogLines(), *filter(None, map(_create_listener, entry_points_of(GROUP)))])


def _create_listener(point: EntryPoint) -> WindowListener | None:
    try:
        listener = point.load()()
        _refuse_other(listener)
    except Exception as error:  # noqa: BLE001 - a module of a package may raise anything
        problem = redact(in_brief(f"{type(error).__name__}: {error}"))
        logger.warning("listener_failed: %s cannot be used: %s", point.value, problem)
        return None
    assert isinstance(listener, WindowListener)
    return listener


def _refuse_other(listener: object) -> None:
    if not isinstance(listener, WindowListener):
        base = f"{WindowListener.__module__}.{WindowListener.__name__}"
        raise TypeError(f"it must be a subclass of {base}")
