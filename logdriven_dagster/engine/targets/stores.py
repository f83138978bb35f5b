"""Which store keeps the rows of which kind of target."""

from collections.abc import Callable
from typing import Any

from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
    Target,
)
from logdriven_dagster.engine.targets.files.table import WindowFiles
from logdriven_dagster.engine.targets.iceberg.table import IcebergTable
from logdriven_dagster.engine.targets.jdbc.table import JdbcTable
from logdriven_dagster.engine.targets.kafka import KafkaTopic
from logdriven_dagster.engine.targets.store import Place, Store

STORES: dict[type[Any], Callable[[Place, str, Any], Store]] = {
    IcebergTarget: IcebergTable,
    FileTarget: WindowFiles,
    JdbcTarget: JdbcTable,
    KafkaTarget: KafkaTopic,
}


def store(place: Place, table: str, target: Target) -> Store:
    """The store of a target of this table."""
    return STORES[type(target)](place, table, target)
