"""The only Spark code: reads, transforms, stages and publishes one window at a time.

Importing this package is cheap; Spark, PyIceberg and PyArrow are imported at first use, so that
commands which only plan start quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logdriven_dagster.engine.spark.session import spark_session
    from logdriven_dagster.engine.window.session import Engine, WindowSession
    from logdriven_dagster.engine.window.stretch import StretchSession

__all__ = ["Engine", "StretchSession", "WindowSession", "spark_session"]


def __getattr__(name: str) -> Any:
    """Import what is asked for (PEP 562)."""
    if name == "spark_session":
        from logdriven_dagster.engine.spark.session import spark_session

        return spark_session
    if name in ("Engine", "WindowSession"):
        from logdriven_dagster.engine.window import session as window

        return getattr(window, name)
    if name == "StretchSession":
        from logdriven_dagster.engine.window.stretch import StretchSession

        return StretchSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
