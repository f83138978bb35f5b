"""The class of every field of a table: the effect that a change of it has on published rows.

This is the only place that decides it. A field of a built-in type that is not listed here fails a
test. A field of an installed type counts as SHAPE unless its base class lists it.
"""

from collections.abc import Mapping
from enum import IntEnum

from pydantic import BaseModel

from logdriven_dagster.config.models.dependencies import AssetDependency, Dependency
from logdriven_dagster.config.models.quality import QualityConfig, RuleUse
from logdriven_dagster.config.models.steps import (
    CheckConfig,
    CommittedSql,
    LoopOver,
    StepConfig,
)
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import (
    CsvSource,
    FileSource,
    FilesSource,
    FileTarget,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.config.models.types.iceberg import IcebergSource, IcebergTarget
from logdriven_dagster.config.models.types.jdbc import JdbcSource, JdbcTarget
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.spark_table import CatalogSource
from logdriven_dagster.config.models.types.targets import HistoryTarget, Target
from logdriven_dagster.config.models.types.time_columns import TimeColumn


class Effect(IntEnum):
    """The effect of a change on the rows of a table, the smallest first."""

    COSMETIC = 0
    """No row of a finished window would differ: formatting, documentation, operation, guards."""
    ADDITIVE = 1
    """Only columns at the end of the result are new."""
    VALUES = 2
    """Rows may have other values, or be filtered in another way."""
    GRAIN = 3
    """A row may stand for something else: keys, groups, joins, the mode of the target."""
    SHAPE = 4
    """Columns may be missing, renamed, reordered or retyped, or the rows are in another place."""
    GRID = 5
    """The windows are others: period, start, end, type of windows."""
    CONTRACT = 6
    """Frozen columns of a table, or of one that reads it, may not be kept."""

    @property
    def label(self) -> str:
        """The name of the class in texts, JSON and options."""
        return self.name.lower()


_COSMETIC, _VALUES, _GRAIN, _SHAPE, _GRID = (
    Effect.COSMETIC,
    Effect.VALUES,
    Effect.GRAIN,
    Effect.SHAPE,
    Effect.GRID,
)

BOUNDS = frozenset(
    {"period", "default_start", "end", "window_size", "lag", "max_offsets_per_window"}
)
"""Fields of class GRID that decide only which windows there are.

The rows of a window that has the same range before and after such a change are the same.
"""

_FIELDS: Mapping[type[BaseModel], Mapping[Effect, str]] = {
    TableConfig: {
        _COSMETIC: "enabled release_state priority worker_group retries retry_interval timeout "
        "timeout_strategy table renamed_from description owners tags delay ordered catch_up "
        "batch_size on_running retry_version on_upstream_refresh on_change on_key_reset "
        "on_source_change "
        # Checks only decide whether a window is published.
        "rows_outside notify freshness preview checks columns schema_rule",
        _VALUES: "lookback depends_on overlap max_batches missing_columns variables properties "
        "steps",
        _GRID: "incremental_type period default_start end window_size lag max_offsets_per_window",
    },
    Dependency: {
        _COSMETIC: "delay",
        _VALUES: "table condition managed window read skipped step cut_pattern",
    },
    AssetDependency: {_VALUES: "asset window period timezone"},
    StepConfig: {
        # The limits of rows only decide whether a window is published.
        _COSMETIC: "max_rows never_empty change_at_most can_recover",
        _VALUES: "step commit_before_read source loop_over target quality on_empty",
        # Queries are compared by `queries`, where they can be read.
        _SHAPE: "sql sql_file python",
    },
    CommittedSql: {_COSMETIC: "transaction", _VALUES: "connection sql"},
    LoopOver: {_COSMETIC: "max_rows", _VALUES: "step sql", _SHAPE: "columns"},
    CheckConfig: {_COSMETIC: "check sql description"},
    QualityConfig: {
        _COSMETIC: "min_pass blocking keep_rejected",
        _VALUES: "columns rows",
        _GRAIN: "id deduplicate_order_by",
    },
    RuleUse: {
        _COSMETIC: "description name blocking",
        _VALUES: "sql fails_when python rule level min max values pattern type table column "
        "columns",
    },
    TimeColumn: {_VALUES: "name unit format"},
    Source: {_VALUES: "window_column key_column", _SHAPE: "options"},
    FilesSource: {
        _COSMETIC: "detect_changes_by on_empty missing_files after_success move_to",
        _VALUES: "path",
        _SHAPE: "columns file_columns",
    },
    FileSource: {_SHAPE: "type"},
    RecordsSource: {_VALUES: "mode"},
    TextSource: {_SHAPE: "type"},
    CsvSource: {_VALUES: "null_value", _SHAPE: "type header sep"},
    JsonSource: {_VALUES: "multiline", _SHAPE: "type unknown_fields"},
    JdbcSource: {_COSMETIC: "partitions", _SHAPE: "type connection table query"},
    CatalogSource: {_SHAPE: "type name"},
    IcebergSource: {_SHAPE: "type name"},
    Target: {
        _COSMETIC: "existing_rows",
        _VALUES: "window_column options",
        _GRAIN: "mode key",
    },
    HistoryTarget: {
        _VALUES: "deleted_when snapshot",
        _GRAIN: "sequence_by track",
        _SHAPE: "valid_from valid_to",
    },
    IcebergTarget: {_SHAPE: "type name"},
    FileTarget: {_SHAPE: "type path"},
    JdbcTarget: {_VALUES: "pre_sql", _SHAPE: "type connection table"},
}

_BY_MODEL = {
    model: {name: effect for effect, names in classes.items() for name in names.split()}
    for model, classes in _FIELDS.items()
}


def find_effect(model: type[BaseModel], field: str) -> Effect | None:
    """Return the effect of a changed field of a model; None if nothing classifies it."""
    found = (_BY_MODEL[base][field] for base in model.__mro__ if field in _BY_MODEL.get(base, ()))
    return next(found, None)


def get_effect(model: type[BaseModel], field: str) -> Effect:
    """Return the effect of a changed field; the largest on columns for fields of other packages."""
    found = find_effect(model, field)
    return Effect.SHAPE if found is None else found


_PROJECT_FIELDS: Mapping[Effect, str] = {
    _COSMETIC: "project run_log lineage recipients ui_url defaults sensor max_parallel lease",
    _VALUES: "quality_rules spark",
    # Variables and properties may be any part of a query.
    _SHAPE: "warehouse storage catalog variables properties connections",
    _GRID: "timezone",
}
_BY_PROJECT_FIELD = {
    name: effect for effect, names in _PROJECT_FIELDS.items() for name in names.split()
}
"""`defaults` are compared with the tables that have them."""


def get_project_effect(path: str) -> Effect:
    """Return the effect on all tables of a changed field of the project file, by its path.

    A field that is not known counts as SHAPE.
    """
    return _BY_PROJECT_FIELD.get(path.partition(".")[0], Effect.SHAPE)


def list_project_fields() -> frozenset[str]:
    """Return the fields of the project file that have a class."""
    return frozenset(_BY_PROJECT_FIELD)
