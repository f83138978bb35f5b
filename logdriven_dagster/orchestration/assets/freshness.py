"""Freshness by window as Dagster's asset checks, evaluated from the run log.

It is not a `FreshnessPolicy`, which uses the time of the last materialization, so that a backfill
of an old day makes the asset fresh. The check can be executed by itself, like those of Dagster's
`build_time_partition_freshness_checks`; in addition, a sensor's tick reports every change.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    DagsterInstance,
    MetadataValue,
    multi_asset_check,
)

from logdriven_dagster.config.models.incremental.freshness import CHECK
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.planning.freshness import Freshness, Verdict

_AGAIN = 3600.0
"""Seconds after which an unchanged result is reported again, with newer windows."""


def freshness_checks(location: Location) -> list[AssetChecksDefinition]:
    """Return one op that evaluates all tables with `freshness`, or those of selected checks."""
    project = location.project
    by_key = {key: name for name, key in location.keys.items() if project.tables[name].freshness}
    if not by_key:
        return []
    specs = [
        AssetCheckSpec(CHECK, asset=key, description="The newest due window has finished.")
        for key in by_key
    ]

    @multi_asset_check(name=location.name(f"{project.name}_{CHECK}"), specs=specs, can_subset=True)
    def judge(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        now = datetime.now(project.zone)
        found = open_runner(project).freshness(now)
        for key in context.selected_asset_check_keys:
            result = _describe(found.get(by_key[key.asset_key]), now)
            yield AssetCheckResult(asset_key=key.asset_key, check_name=CHECK, **result)

    return [judge]


class FreshnessShown:
    """The freshness of tables that this process has reported; only changes are reported."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._reported: dict[str, tuple[object, float]] = {}

    def report(
        self, instance: DagsterInstance, found: Mapping[str, Freshness], now: datetime
    ) -> None:
        """Report the tables whose result has changed, or was reported long ago."""
        for name, each in found.items():
            if name not in self._location.keys:
                continue
            answer, instant = (each.verdict, each.missing), time.monotonic()
            before, reported = self._reported.get(name, (None, instant))
            if answer == before and instant - reported < _AGAIN:
                continue
            event = AssetCheckEvaluation(self._location.key(name), CHECK, **_describe(each, now))
            instance.report_runless_asset_event(event)
            self._reported[name] = (answer, instant)


def _describe(found: Freshness | None, now: datetime) -> dict[str, Any]:
    if found is None:
        return {
            "passed": True,
            "description": "Not checked while the table is offline or disabled.",
        }
    severity = (
        AssetCheckSeverity.WARN if found.verdict is Verdict.WARNING else AssetCheckSeverity.ERROR
    )
    metadata: dict[str, Any] = {
        "verdict": found.verdict.value,
        "within_seconds": found.within.total_seconds(),
    }
    if decisive := found.missing or found.expected:
        metadata["window"] = str(decisive)
    if found.due is not None:
        metadata["due"] = MetadataValue.timestamp(found.due)
    if found.missing is not None:
        metadata["overdue_seconds"] = round(found.overdue(now).total_seconds())
    result = {"passed": found.missing is None, "severity": severity, "metadata": metadata}
    return result | {"description": _description(found)}


def _description(found: Freshness) -> str:
    if found.expected is None:
        return "No window is due yet."
    if found.missing is None:
        return f"{found.expected}, the newest due window, has finished."
    due = f"should have finished by {found.due_clock:%Y-%m-%d %H:%M}"
    return redact(f"{found.missing} {due}: {found.reason}")
