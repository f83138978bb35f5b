"""What this package uses of the private side of PySpark's Connect client; nothing else does.

ARCHITECTURE.md ("Private APIs") says what each is for, and which test breaks without it.
"""
# ruff: noqa: SLF001 - here, and nowhere else in this room

import atexit
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def channel_builder(spark: "SparkSession") -> Any:
    """Return the channel builder by which the session reaches its server."""
    return _client(spark)._builder


def user(spark: "SparkSession") -> str | None:
    """Return the id of the user whose session it is."""
    name: str | None = _client(spark)._user_id
    return name


def forget_at_exit(spark: "SparkSession") -> None:
    """Take back that the session's client cleans up at exit: it would live until then."""
    atexit.unregister(_client(spark)._on_exit)


def plan(frame: Any) -> Any:
    """Return the plan that the frame sends to the server."""
    return frame._plan


def explanation(frame: "DataFrame") -> str:
    """Return what `explain` prints, with Spark's estimates."""
    untyped: Any = frame
    return str(untyped._explain_string(mode="cost"))


def _client(spark: "SparkSession") -> Any:
    return spark.client
