"""The private modules of Dagster that this package uses; no other module imports one.

docs/evidence/private-apis.md gives the reason for each, and the test that breaks when Dagster
changes a name.
"""

import logging
from collections.abc import Iterable
from typing import Any, TypeAlias

from dagster import AssetExecutionContext, AssetKey, DagsterInstance, OpExecutionContext
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    extract_data_version_from_entry,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.source_asset import (
    SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION,
)
from dagster._core.events import (
    AssetMaterializationPlannedData,
    AssetObservationData,
    EngineEventData,
    StepMaterializationData,
)
from dagster._core.execution.api import create_execution_plan
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.launcher.base import WorkerStatus
from dagster._core.log_manager import DagsterLogHandler
from dagster._core.snap import snapshot_from_execution_plan
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.tags import PARTITION_NAME_TAG

__all__ = [
    "CODE_VERSION_TAG",
    "DATA_VERSION_TAG",
    "NULL_EVENT_POINTER",
    "PARTITION_NAME_TAG",
    "RUNLESS_JOB_NAME",
    "RUNLESS_RUN_ID",
    "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION",
    "AssetCheckExecutionRecordStatus",
    "AssetCheckExecutionsTable",
    "AssetMaterializationPlannedData",
    "AssetObservationData",
    "EngineEventData",
    "SqlEventLogStorage",
    "SqlEventLogStorageTable",
    "StepContext",
    "StepMaterializationData",
    "WorkerStatus",
    "create_execution_plan",
    "execute_run",
    "execute_run_request",
    "get_input_data_version_tag",
    "get_input_event_pointer_tag",
    "has_listeners",
    "read_data_version",
    "snapshot_from_execution_plan",
    "storing_handler",
]

StepContext: TypeAlias = AssetExecutionContext | OpExecutionContext


def storing_handler(context: StepContext) -> logging.Handler | None:
    """Return the handler that stores a step's logs and events in the instance's event log."""
    kind = type(context.instance.get_event_log_handler())
    of_dagster = [each for each in context.log.handlers if isinstance(each, DagsterLogHandler)]
    storing = [each for one in of_dagster for each in one._handlers if type(each) is kind]  # noqa: SLF001
    return storing[0] if len(storing) == 1 else None


def has_listeners(instance: DagsterInstance, run_ids: Iterable[str]) -> bool:
    """Return True if a listener in this process receives each event of some runs."""
    listeners = instance._subscribers  # noqa: SLF001
    return any(listeners.get(run_id) for run_id in run_ids)


def read_data_version(instance: DagsterInstance, key: AssetKey) -> str:
    """Return the data version of an asset without partitions, as Dagster compares it."""
    record = instance.get_latest_data_version_record(key)
    found = record and extract_data_version_from_entry(record.event_log_entry)
    return (found or DEFAULT_DATA_VERSION).value


def execute_run_request(instance: DagsterInstance, origin: Any, run_id: str) -> Any:
    """Return the request for `execute_run`; `origin` is the context's `job_code_origin`."""
    from dagster._grpc.types import ExecuteRunArgs

    return ExecuteRunArgs(origin, run_id, instance.get_ref(), set_exit_code_on_failure=True)


def execute_run(request: str) -> None:
    """Execute a run in this process, as `dagster api execute_run` does, and leave it."""
    from dagster._cli.api import api_cli

    api_cli(["execute_run", request], prog_name="dagster api")
