"""Tables from Sharp ETL's workflow files."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from logdriven_dagster.config.models.fields import parse_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.model.periods import Period
from logdriven_dagster.plugins.importers import naming
from logdriven_dagster.plugins.importers.drafts import DraftFile, Translation, Values, table_path
from logdriven_dagster.plugins.importers.sharpetl.context import Context, SharpEtlRule
from logdriven_dagster.plugins.importers.sharpetl.http import Requests
from logdriven_dagster.plugins.importers.sharpetl.parser import Workflow, read_workflows
from logdriven_dagster.plugins.importers.sharpetl.quality import notify, read_rules
from logdriven_dagster.plugins.importers.sharpetl.sources import FILES, KAFKA
from logdriven_dagster.plugins.importers.sharpetl.steps import Steps
from logdriven_dagster.plugins.importers.sharpetl.targets import list_written
from logdriven_dagster.plugins.importers.sharpetl.uniting import unite_writers
from logdriven_dagster.plugins.importers.sharpetl.variables import (
    Variables,
    names_of_start,
    names_of_window,
)

_KINDS = {"timewindow": "time_window", "": "time_window", "diff": "time_window"}
_KINDS |= {name: name for name in ("auto_inc_id", "kafka_offset", "upstream", "time_window")}
_KNOWN = frozenset(
    {"period", "loadType", "logDrivenType", "incrementalType", "upstream", "dependsOn", "comment"}
    | {"timeout", "defaultStart", "stopScheduleWhenFail"}
)
_START = date(2022, 1, 1)
"""Sharp ETL's default start of a workflow."""


def import_sharpetl(
    project: Project,
    paths: Sequence[Path],
    connections: Mapping[str, str],
    rules: Path | None,
) -> Translation:
    """Return a draft for each workflow.

    `connections` maps Sharp ETL's names to the project's, `rules` is their `quality-check.yaml`.
    Raises InvalidProjectError for malformed files and duplicate names.
    """
    translation = Translation()
    workflows = read_workflows(paths, translation)
    names: dict[str, str] = {}
    for workflow in workflows:
        taken = {name.lower() for name in names.values()}
        name = naming.distinct(naming.table_name(workflow.name), taken)
        names[workflow.name] = name
        if name != workflow.name:
            place = workflow.place(workflow.line)
            translation.note(place, workflow.name, f"the table is called {name}")
    translation.names = names
    known = read_rules(rules)
    writers: dict[str, str] = {}
    for workflow in workflows:
        writers |= list_written(workflow)
    for workflow in workflows:
        one = _WorkflowDraft(project, workflow, translation, (names, writers), (connections, known))
        translation.drafts.append(one.draft())
    unite_writers(translation)
    return translation


class _WorkflowDraft:
    """Draft of the file of one workflow."""

    def __init__(
        self,
        project: Project,
        workflow: Workflow,
        translation: Translation,
        all_tables: tuple[Mapping[str, str], Mapping[str, str]],
        theirs: tuple[Mapping[str, str], Mapping[str, SharpEtlRule]],
    ) -> None:
        self._names, writers = all_tables
        self._project, self._workflow = project, workflow
        self._incomplete = False
        self._fallen_back = False
        kind = self._kind(translation)
        variables = Variables(
            workflow.name, kind not in ("time_window", "full"), project.config.variables.keys()
        )
        self._context = Context(project, workflow, translation, *theirs, kind, variables, writers)

    def _kind(self, translation: Translation) -> str:
        """Return the table's incremental type."""
        workflow = self._workflow
        text = workflow.get("logDrivenType") or workflow.get("incrementalType")
        kind = _KINDS.get(text.lower())
        if kind is None or text.lower() == "diff":
            header = workflow.headers.get("logDrivenType") or workflow.headers["incrementalType"]
            reason = "unknown type; time windows are used instead"
            if kind:
                reason += ", and max_rows of a step its limit"
            translation.leave(workflow.place(header.line), f"{header.key}={text}", reason)
        if any(step.source.kind in KAFKA for step in workflow.steps):
            return "kafka_offset"
        if kind == "upstream":
            return self._upstream_kind(translation)
        if kind in (None, "time_window") and self._is_of_files():
            return "files"
        if kind == "time_window" and workflow.get("loadType").lower() == "full":
            return self._full(translation)
        return kind or "time_window"

    def _upstream_kind(self, translation: Translation) -> str:
        """Return time_window if a text names a part of the window's start, such as `${YEAR}`.

        Sharp ETL has these parts only for windows of time, for example with
        `--log-driven-type=timewindow`.
        """
        workflow = self._workflow
        named = names_of_start(workflow.texts())
        if named:
            header = workflow.headers.get("logDrivenType") or workflow.headers["incrementalType"]
            reason = (
                f"its texts contain {', '.join(named)}, which Sharp ETL has only for windows of "
                "time; they are used instead"
            )
            place = workflow.place(header.line)
            translation.note(place, f"{header.key}={header.value}", reason)
        return "upstream" if self._upstream() and not named else "time_window"

    def _full(self, translation: Translation) -> str:
        """Return the incremental type of a full load: `full` unless its texts use the window.

        With `full`, only the newest window runs. Source: Sharp ETL, whose planner runs each missed
        window for any `loadType`.
        """
        workflow = self._workflow
        line = workflow.headers["loadType"].line
        named = names_of_window(workflow.texts())
        if named:
            reason = (
                f"its texts contain {', '.join(named)}: each missed window runs, as in Sharp ETL"
            )
        else:
            reason = (
                "no text contains a variable of the window, so only the newest window "
                "runs; Sharp ETL repeats it for each missed window"
            )
        translation.note(workflow.place(line), f"loadType={workflow.get('loadType')}", reason)
        return "time_window" if named else "full"

    def _is_of_files(self) -> bool:
        """Return True if files are loaded once: deleted afterwards, or required to exist."""
        steps = [step for step in self._workflow.steps if step.source.kind in FILES]
        once = [
            step.source.is_true("deleteSource")
            or step.is_true("throwExceptionIfEmpty")
            or step.is_true("skipFollowStepWhenEmpty")
            for step in steps
        ]
        texts = " ".join(step.sql for step in self._workflow.steps)
        paths = " ".join(header.value for step in steps for header in step.source.headers.values())
        clock = re.search(r"\$\{(DATA_RANGE|YEAR|MONTH|DAY|HOUR|MINUTE)", texts)
        return once == [True] and clock is None and "${" not in paths and "," not in paths

    def draft(self) -> DraftFile:
        workflow, context = self._workflow, self._context
        context.leave_unknown(workflow.headers.values(), _KNOWN, "a workflow")
        values: Values = {"table": self._names[workflow.name]}
        if comment := workflow.get("comment"):
            values["description"] = comment.replace("${", "$ {")
        steps = Steps(context, Requests(values["table"]))
        for step in workflow.steps:
            steps.add(step)
        self._at_least_one_target(steps)
        self._check_kind(steps)
        depends_on = self._depends_on(steps)
        if steps.incomplete or self._incomplete:
            values["release_state"] = "offline"
        values |= self._options()
        values |= self._times()
        if depends_on:
            values["depends_on"] = depends_on
        if rules := notify(context):
            values["notify"] = rules
        if context.variables.constants:
            values["variables"] = dict(context.variables.constants)
        values["steps"] = steps.steps
        if steps.checks:
            values["checks"] = steps.checks
        origin = f"Made by `logdriven import-sharpetl` from {workflow.path.name}."
        path = table_path(values["table"])
        files = {path.with_name(steps.requests.file): str(steps.requests)} if steps.requests else {}
        return DraftFile(path, values, origin, self._comments(steps), files)

    def _comments(self, steps: Steps) -> dict[str, Sequence[str]]:
        comments: dict[str, Sequence[str]] = dict(steps.comments)
        if self._context.kind == "files" and not self._fallen_back:
            comments["incremental_type"] = ["Each file is loaded once, regardless of the interval."]
        if self._context.kind == "full":
            comments["incremental_type"] = ["loadType=full: only the newest window ever runs."]
        return comments

    def _options(self) -> Values:
        project = self._workflow.options.get("projectName") or self._workflow.options.get("project")
        for key, header in self._workflow.options.items():
            if header is not project:
                text = f"options {key}={header.value}"
                self._context.leave(header.line, text, "not an option of a workflow here")
        return {"tags": {"project": project.value}} if project else {}

    def _times(self) -> Values:
        workflow = self._workflow
        kind = "time_window" if self._fallen_back else self._context.kind
        values: Values = {"incremental_type": kind}
        text = workflow.get("period")
        if naming.is_whole(text) and int(text):
            values["period"] = str(Period.parse(int(text)))
        else:
            if text:
                self._context.leave(
                    workflow.headers["period"].line, f"period={text}", "not a number of minutes"
                )
            elif kind in ("time_window", "full"):
                reason = (
                    "there is no period: Sharp ETL ran it once with each start, here it is daily"
                )
                self._context.note(workflow.line, workflow.name, reason)
            values["period"] = "1 day"
        if kind not in ("files", "upstream"):
            values |= self._start(kind)
        if naming.is_whole(workflow.get("timeout")) and int(workflow.get("timeout")):
            values["timeout"] = f"{int(workflow.get('timeout'))} s"
        elif "timeout" in workflow.headers:
            header = workflow.headers["timeout"]
            self._context.leave(header.line, f"timeout={header.value}", "not a number of seconds")
        return values

    def _start(self, kind: str) -> Values:
        text = self._workflow.get("defaultStart")
        if kind == "kafka_offset":
            return {"default_start": text} if text else {}
        if kind == "auto_inc_id":
            if text and not naming.is_whole(text):
                line = self._workflow.headers["defaultStart"].line
                self._context.leave(line, f"defaultStart={text}", "not a whole number, so it is 0")
                return {"default_start": 0}
            return {"default_start": int(text or 0)}
        try:
            return {"default_start": _parse_start(text) if text else _START}
        except ValueError as error:
            line = self._workflow.headers["defaultStart"].line
            self._context.leave(line, f"defaultStart={text}", str(error))
            return {"default_start": _START}

    def _upstream(self) -> str | None:
        name = self._workflow.get("upstream")
        return self._ours(name) if name else None

    def _ours(self, name: str) -> str | None:
        """Return the table of a workflow, if it is imported or already in the project."""
        if name in self._names:
            return self._names[name]
        return name if name in self._project.tables else None

    def _depends_on(self, steps: Steps) -> list[Values]:
        depends: dict[str, Values] = {}
        name = self._workflow.get("upstream")
        if name and (ours := self._ours(name)):
            depends[ours] = {"table": ours}
            if self._context.kind != "upstream":
                depends[ours]["read"] = "none"
            if "${DATA_RANGE_START}" in " ".join(step.sql for step in self._workflow.steps):
                self._incomplete = True
                line = self._workflow.headers["upstream"].line
                reason = (
                    "${DATA_RANGE_START} is not a job id here; read the rows of the batch as "
                    f"{ours}"
                )
                self._context.leave(line, f"upstream={name}", reason)
        elif name:
            self._incomplete = True
            self._context.leave(
                self._workflow.headers["upstream"].line,
                f"upstream={name}",
                "this workflow was not imported; time windows are used instead",
            )
        for line, other in self._list_awaited():
            ours = self._ours(other)
            if ours is None:
                ours = naming.table_name(other)
                depends.setdefault(ours, {"table": ours, "managed": False})
                reason = "this workflow was not imported: it counts as complete"
                self._context.leave(line, f"depends on {other}", reason)
            # Their queries read databases, so upstream tables are awaited but not read by name.
            depends.setdefault(ours, {"table": ours, "read": "none"})
        known = {name.lower() for name in (*depends, *self._project.tables)}
        for name in steps.list_catalog_tables():
            if name.lower() not in known:
                depends[name] = {"table": name, "managed": False}
        return list(depends.values())

    def _list_awaited(self) -> list[tuple[int, str]]:
        """Return the workflows that this one waits for, with the line of each declaration."""
        found = []
        if header := self._workflow.headers.get("dependsOn"):
            found += [(header.line, name) for name in header.value.split(",")]
        for step in self._workflow.steps:
            if step.source.get("className").endswith("JobDependencyCheckTransformer"):
                names = step.source.get("dependencies").split(",")
                found += [(step.line, name) for name in names]
        return [(line, name.strip()) for line, name in found if name.strip()]

    def _check_kind(self, steps: Steps) -> None:
        """Fall back to time windows if the step that reads by range is a stub."""
        sources = [step.get("source") or {} for step in steps.steps]
        cut = {
            "auto_inc_id": any("key_column" in source for source in sources),
            "files": any(source.get("type") in FILES for source in sources),
            "kafka_offset": any(source.get("type") == "kafka" for source in sources),
        }
        if not cut.get(self._context.kind, True):
            self._fallen_back = self._incomplete = True
            reason = f"no step is left that {self._context.kind} divides; it has time windows now"
            self._context.leave(self._workflow.line, self._workflow.name, reason)

    def _at_least_one_target(self, steps: Steps) -> None:
        """Add a target to the last step if the workflow has none, so that its rows are counted."""
        if any("target" in step for step in steps.steps):
            return
        if not steps.steps:
            reason = "the workflow has no step that reads or writes rows"
            self._incomplete = True
            self._context.leave(self._workflow.line, self._workflow.name, reason)
            steps.steps.append({"step": "nothing", "sql": "SELECT 1 AS nothing"})
        else:
            reason = "no step has a target: the rows of the last one are stored in Iceberg"
            self._context.note(self._workflow.line, self._workflow.name, reason)
        steps.steps[-1]["target"] = {"type": "iceberg"}


def _parse_start(text: str) -> Any:
    instant: datetime = parse_instant(text)
    return instant.date() if instant.time() == datetime.min.time() else instant
