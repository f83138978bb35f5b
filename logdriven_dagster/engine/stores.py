"""Which store keeps the rows of which kind of target."""

from collections.abc import Callable
from typing import Any

from logdriven_dagster.config.steps import (
    CatalogTarget,
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
    Target,
)
from logdriven_dagster.engine.catalog import CatalogTable
from logdriven_dagster.engine.files import WindowFiles
from logdriven_dagster.engine.iceberg import IcebergTable
from logdriven_dagster.engine.jdbc import JdbcTable
from logdriven_dagster.engine.kafka_target import KafkaTopic
from logdriven_dagster.engine.staging import Place, Store

STORES: dict[type[Any], Callable[[Place, str, Any], Store]] = {
    IcebergTarget: IcebergTable,
    FileTarget: WindowFiles,
    JdbcTarget: JdbcTable,
    CatalogTarget: CatalogTable,
    KafkaTarget: KafkaTopic,
}


def store(place: Place, table: str, target: Target) -> Store:
    """The store of a target of this table."""
    return STORES[type(target)](place, table, target)
