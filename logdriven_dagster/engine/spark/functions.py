"""PySpark's functions, for the kind of columns that the current session takes.

PySpark makes columns of one kind for a whole process: classic ones, or those of Spark Connect. A
process with a classic session and one of Connect needs both kinds.
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
    from pyspark.sql.functions import *  # noqa: F403 - resolves `sf.` names

_module: ContextVar[str] = ContextVar("functions", default=BY_PROCESS)


@contextmanager
def functions_for(spark: "SparkSession") -> Iterator[None]:
    """Use functions within this block that make columns for this session."""
    token = _module.set(mode_of(spark).functions)
    try:
        yield
    finally:
        _module.reset(token)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # Python looks these up in every module
            raise AttributeError(name)
        return getattr(import_module(_module.get()), name)
