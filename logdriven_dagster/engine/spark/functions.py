"""PySpark's functions, of the kind that the session at hand takes.

PySpark makes columns of one kind for a whole process: classic ones, or those of Spark Connect. A
process that has a session of Spark and one of Sail needs both, each in its place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.spark.mode import BY_PROCESS
from logdriven_dagster.engine.spark.modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import *  # noqa: F403 - what `sf.` finds here

_module: ContextVar[str] = ContextVar("functions", default=BY_PROCESS)


@contextmanager
def functions_for(spark: "SparkSession") -> Iterator[None]:
    """Let columns that are made within this block be of the kind that the session takes."""
    token = _module.set(mode_of(spark).functions)
    try:
        yield
    finally:
        _module.reset(token)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # Python asks each module for such, PySpark is not loaded for it
            raise AttributeError(name)
        return getattr(import_module(_module.get()), name)
