"""Everybody who takes part, by name."""

from benchmarks.contestants import (
    alike,
    dbt,
    dlt,
    logdriven,
    plain,
    plain_iceberg,
    sqlmesh,
    standalone,
)
from benchmarks.tasks import Contestant

CONTESTANTS: dict[str, Contestant] = {
    **plain.CONTESTANTS,
    **sqlmesh.CONTESTANTS,
    **dbt.CONTESTANTS,
    **alike.CONTESTANTS,
    **plain_iceberg.CONTESTANTS,
    **dlt.CONTESTANTS,
    **logdriven.CONTESTANTS,
    **standalone.CONTESTANTS,
}
