"""The PySpark installation: a full Spark, or only the client for Spark Connect."""

from importlib.metadata import PackageNotFoundError, version

from logdriven_dagster.errors import UsageError


def is_whole() -> bool:
    """Return whether Spark itself is installed; False with `pyspark-client`."""
    from pyspark.util import is_remote_only

    return not is_remote_only()


def pyspark_version() -> str:
    """Return the version of PySpark, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return version("pyspark-client")


def refuse_client_alone() -> None:
    """Raise UsageError if only the client for Spark Connect is installed, without Spark itself."""
    if not is_whole():
        raise UsageError(
            "Spark is not installed on this host, only its client for Spark Connect "
            "(pyspark-client); set a server with spark.remote: sc://host:port in "
            "logdriven.yaml or with LOGDRIVEN_SPARK_REMOTE, or make a new environment "
            "with `pip install logdriven_dagster`, which includes Spark"
        )
