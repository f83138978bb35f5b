"""Everybody who takes part, by name."""

from benchmarks.contestants import alike, dbt, logdriven, plain, sqlmesh, standalone
from benchmarks.tasks import Contestant

CONTESTANTS: dict[str, Contestant] = {
    **plain.CONTESTANTS,
    **sqlmesh.CONTESTANTS,
    **dbt.CONTESTANTS,
    **alike.CONTESTANTS,
    **logdriven.CONTESTANTS,
    **standalone.CONTESTANTS,
}
