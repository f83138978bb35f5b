"""Rules of data quality and `checks:` as Dagster's asset checks, one evaluation per partition.

A check cannot be run alone: it is part of the pass that writes a window. So it belongs to the
asset's own op, and Dagster offers to materialize the asset instead.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    MetadataValue,
    PartitionsDefinition,
)

from logdriven_dagster.config.models.incremental.freshness import CHECK as FRESHNESS
from logdriven_dagster.config.models.quality import Rule, resolve_rules
from logdriven_dagster.config.models.rules import BUILT_IN, LATEST_REFRESH
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.quality import QualityReport, RuleResult
from logdriven_dagster.orchestration.assets.refresh_check import refresh_check_spec

_SAMPLE = 10
"""The number of ids of bad rows shown in Dagster; the run log has more of them."""
_GOOD_ENOUGH = "min_pass"


def check_specs(
    project: Project,
    table: TableConfig,
    key: AssetKey,
    partitions: "PartitionsDefinition[str] | None",
) -> list[AssetCheckSpec]:
    """Return the specifications of the checks of a table's asset."""
    with warnings.catch_warnings():
        # Dagster marks checks of partitions as a preview.
        warnings.simplefilter("ignore")
        of_windows = [
            AssetCheckSpec(
                name,
                asset=key,
                description=description,
                blocking=blocking,
                partitions_def=partitions,
            )
            for name, (description, blocking) in _descriptions(project, table).items()
        ]
        return [*of_windows, refresh_check_spec(key)]


def _descriptions(project: Project, table: TableConfig) -> dict[str, tuple[str | None, bool]]:
    """Return each check's description, and if it blocks publication."""
    described: dict[str, tuple[str | None, bool]] = {}
    for step, rules in _rules(project, table):
        for name, rule in _name_checks(table, step, rules).items():
            described[name] = (_description(rule), rule.blocking)
        if step.quality and step.quality.min_pass is not None:
            percent = f"at least {step.quality.min_pass:g} % of the rows pass all rules"
            described[_prefix(table, step, _GOOD_ENOUGH)] = (percent, True)
    return described | {
        check.check: (check.description or check.sql, True) for check in table.checks
    }


@dataclass(frozen=True, slots=True)
class CheckFindings:
    """The results of rules and checks in the window of one attempt."""

    job_id: int
    reports: Mapping[str, QualityReport]
    """The reports by the steps that have rules."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """True for each check that passed."""
    error: str = ""
    """The error of the check that did not pass."""

    @classmethod
    def from_event(cls, event: WindowSucceeded | WindowFailed) -> "CheckFindings":
        """Return the results that the end of a window reports."""
        reports = {staged.step_id: staged.quality for staged in event.steps if staged.quality}
        error = event.error if isinstance(event, WindowFailed) else ""
        return cls(event.attempt.job_id, reports, event.checks, error)


def evaluations(
    project: Project, table: TableConfig, found: CheckFindings, key: AssetKey, partition: str
) -> Iterator[AssetCheckEvaluation]:
    """Yield the results of one window, without rules that the table no longer, or not yet, has."""
    blocking = {name: blocks for name, (_, blocks) in _descriptions(project, table).items()}
    shown = _describe_results(project, table, found)
    for name in shown.keys() & blocking.keys():
        passed, level, metadata = shown[name]
        yield AssetCheckEvaluation(
            key,
            name,
            passed,
            {**metadata, "job_id": str(found.job_id)},
            severity=AssetCheckSeverity.WARN if level == "warn" else AssetCheckSeverity.ERROR,
            blocking=blocking[name],
            partition=partition,
        )


def _describe_results(
    project: Project, table: TableConfig, found: CheckFindings
) -> dict[str, tuple[bool, str, Mapping[str, Any]]]:
    """Return for each check if it passed, its level, and its metadata."""
    shown: dict[str, tuple[bool, str, Mapping[str, Any]]] = {}
    for step, rules in _rules(project, table):
        if (report := found.reports.get(step.step)) is None:
            continue
        results = {(result.rule, result.column): result for result in report.results}
        for name, rule in _name_checks(table, step, rules).items():
            if result := results.get((rule.name, rule.column)):
                shown[name] = (result.passed, result.level, _metadata(report, result))
        if report.min_pass is not None:
            good = report.good_percent >= report.min_pass
            shown[_prefix(table, step, _GOOD_ENOUGH)] = (good, "error", _statistics(report))
    for check, passed in found.checks.items():
        shown[check] = (passed, "error", {} if passed else {"error": found.error})
    return shown


def _rules(project: Project, table: TableConfig) -> Iterator[tuple[StepConfig, tuple[Rule, ...]]]:
    for step in table.steps:
        if step.quality is not None:
            yield step, resolve_rules(step.quality, project.config.quality_rules)


def _name_checks(table: TableConfig, step: StepConfig, rules: tuple[Rule, ...]) -> dict[str, Rule]:
    """Return the rules by the names of their checks, which hold letters and digits only."""
    named: dict[str, Rule] = {}
    for rule in rules:
        column = rule.column if rule.kind != "duplicates" else None
        plain = re.sub(r"\W+", "_", "_".join(filter(None, [column, rule.name])), flags=re.ASCII)
        name, number = _prefix(table, step, plain), 1
        while name in named:
            number += 1
            name = f"{_prefix(table, step, plain)}_{number}"
        named[name] = rule
    return named


def _prefix(table: TableConfig, step: StepConfig, name: str) -> str:
    """Prefix a check's name with the step's where the check's alone would be ambiguous."""
    several = sum(each.quality is not None for each in table.steps) > 1
    taken = name in [FRESHNESS, LATEST_REFRESH, *(check.check for check in table.checks)]
    return f"{step.step}_{name}" if several or taken else name


def _description(rule: Rule) -> str | None:
    if rule.description:
        return rule.description
    text = BUILT_IN[rule.kind].says if rule.kind in BUILT_IN else rule.text
    if rule.kind == "duplicates":
        text = "of several rows with the same id, only the newest is written"
    given = ", ".join(f"{name}: {value}" for name, value in rule.parameters.items())
    return redact(f"{text} ({given})" if given else text)


def _metadata(report: QualityReport, result: RuleResult) -> dict[str, Any]:
    """Return the numbers, and the first ids as a list that the UI can fold."""
    metadata: dict[str, Any] = {"rows": result.count, "checked_rows": report.checked}
    if result.ids:
        sample = [
            {
                name: redact(value) if isinstance(value, str) else value
                for name, value in row.items()
            }
            for row in result.ids[:_SAMPLE]
        ]
        metadata["first_ids"] = MetadataValue.json(sample)
    return metadata


def _statistics(report: QualityReport) -> dict[str, Any]:
    return {
        "good_percent": report.good_percent,
        "min_pass": report.min_pass,
        "rejected_rows": report.rejected,
        "checked_rows": report.checked,
    }
