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


def share_compression(known: "SparkSession", session: "SparkSession") -> None:
    """Let a session send plans as another one does, instead of asking the server how to.

    Before Spark 4.1 nobody asks.
    """
    if ask := getattr(_client(known), "_get_plan_compression_threshold_and_algorithm", None):
        client = _client(session)
        client._plan_compression_threshold, client._plan_compression_algorithm = ask()


def forget_at_exit(spark: "SparkSession") -> None:
    """Take back that the session's client cleans up at exit: it would live until then."""
    client = _client(spark)
    # What Spark 4.2, 4.1 and 4.0 call it.
    older: Any = getattr(client, "_cleanup_ml_cache", None) or getattr(client, "_cleanup_ml", None)
    at_exit: Any = getattr(client, "_on_exit", None) or older
    atexit.unregister(at_exit)


def plan(frame: Any) -> Any:
    """Return the plan that the frame sends to the server."""
    return frame._plan


def explanation(frame: "DataFrame") -> str:
    """Return what `explain` prints, with Spark's estimates."""
    untyped: Any = frame
    return str(untyped._explain_string(mode="cost"))


def _client(spark: "SparkSession") -> Any:
    return spark.client
