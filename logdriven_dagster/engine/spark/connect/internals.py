"""Access to the private API of PySpark's Connect client; no other module uses it.

docs/evidence/private-apis.md lists the purpose of each attribute, and the test that breaks without
it.
"""
# ruff: noqa: SLF001 - only this module uses private names

import atexit
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def channel_builder(spark: "SparkSession") -> Any:
    """Return the channel builder that connects the session to its server."""
    return _client(spark)._builder


def user(spark: "SparkSession") -> str | None:
    """Return the id of the session's user."""
    name: str | None = _client(spark)._user_id
    return name


def share_compression(known: "SparkSession", session: "SparkSession") -> None:
    """Copy the plan compression of another session, instead of requesting it from the server.

    PySpark before Spark 4.1 does not compress plans.
    """
    if ask := getattr(_client(known), "_get_plan_compression_threshold_and_algorithm", None):
        client = _client(session)
        client._plan_compression_threshold, client._plan_compression_algorithm = ask()


def forget_at_exit(spark: "SparkSession") -> None:
    """Unregister the session client's cleanup at exit, which would keep the client alive."""
    client = _client(spark)
    # The method's names in Spark 4.2, 4.1 and 4.0.
    older: Any = getattr(client, "_cleanup_ml_cache", None) or getattr(client, "_cleanup_ml", None)
    at_exit: Any = getattr(client, "_on_exit", None) or older
    atexit.unregister(at_exit)


def plan(frame: Any) -> Any:
    """Return the plan that the frame sends to the server."""
    return frame._plan


def explanation(frame: "DataFrame") -> str:
    """Return the text that `explain` prints, with Spark's estimates."""
    untyped: Any = frame
    return str(untyped._explain_string(mode="cost"))


def _client(spark: "SparkSession") -> Any:
    return spark.client
