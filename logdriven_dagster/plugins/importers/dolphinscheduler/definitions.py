"""Workflows, tasks and relations of an export of DolphinScheduler, as values.

An export is a list of workflows; the API returns one of them in `data`. DolphinScheduler 3.3
renamed `processDefinition` to `workflowDefinition`. Numbers may be texts, and objects may be JSON
in a text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.naming import is_whole

_DEFINITION = ("workflowDefinition", "processDefinition")
_RELATIONS = ("workflowTaskRelationList", "processTaskRelationList", "taskRelationJson")
_TASKS = ("taskDefinitionList", "taskDefinitionJson")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A global or local parameter."""

    name: str
    type: str
    value: str
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A task definition; durations are in minutes."""

    code: str
    name: str
    kind: str
    values: Mapping[str, Any]
    """All fields of the task."""
    parameters: Mapping[str, Any]
    """Its `taskParams`."""
    local: Sequence[Parameter]

    @property
    def is_enabled(self) -> bool:
        """False if the task is forbidden: DolphinScheduler continues with the tasks after it."""
        return _text(self.values.get("flag")).upper() not in ("NO", "0")

    def number(self, name: str) -> int:
        """Return a field as a number; 0 if it is absent, negative or no number."""
        text = _text(self.values.get(name))
        return int(text) if is_whole(text) else 0

    def text(self, name: str) -> str:
        """Return a field as a text; empty if it is absent."""
        return _text(self.values.get(name))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a workflow."""

    crontab: str
    timezone: str
    end: str
    is_online: bool
    values: Mapping[str, Any]

    @property
    def worker_group(self) -> str:
        """The group of the tasks that name none themselves."""
        return _text(self.values.get("workerGroup"))

    @property
    def environment(self) -> str:
        """Code of the environment of the tasks that name none themselves."""
        return _text(self.values.get("environmentCode"))

    @property
    def priority_name(self) -> str:
        """Name of the field with the priority of its runs, which DolphinScheduler 3.3 renamed."""
        new = "workflowInstancePriority"
        return new if new in self.values else "processInstancePriority"


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow with its tasks by code, and the tasks before each task."""

    place: str
    code: str
    name: str
    project: str
    description: str
    is_online: bool
    execution: str
    timeout: int
    parameters: Sequence[Parameter]
    tasks: Mapping[str, Task]
    """Tasks by code, each after those before it."""
    before: Mapping[str, Sequence[str]]
    schedule: Schedule | None = None

    @property
    def passed(self) -> set[str]:
        """The names of values that tasks pass to later ones."""
        return {each.name for task in self.tasks.values() for each in task.local if each.is_output}


def read_workflows(paths: Sequence[Path]) -> list[Workflow]:
    """Read exported workflows from files, or from the `.json` files of folders.

    Raises UsageError for a file that is not an export, and for a workflow that occurs twice.
    """
    found: dict[str, Workflow] = {}
    for path in _list_files(paths):
        for values in _read_file(path):
            try:
                workflow = _read_workflow(path, values)
            except UntranslatableError as error:
                raise UsageError(f"{path}: {error}; export the workflow again") from None
            if workflow.code in found:
                first = found[workflow.code].place
                raise UsageError(
                    f"{path}: workflow {workflow.name} ({workflow.code}) is in {first} as well; "
                    "pass only one of them"
                )
            found[workflow.code] = workflow
    return list(found.values())


def _list_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.rglob("*.json") if each.is_file())
        elif path.is_file():
            yield path
        else:
            raise UsageError(f"{path} does not exist; pass exported workflows")


def _read_file(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}); export the workflow again") from None
    if isinstance(content, dict) and "code" in content and isinstance(content.get("data"), dict):
        content = content["data"]  # the body of an answer of the API
    for each in content if isinstance(content, list) else [content]:
        is_export = isinstance(each, dict) and all(
            _first(each, names) is not None for names in (_DEFINITION, _TASKS)
        )
        if not is_export:
            old = isinstance(each, dict) and "processDefinitionJson" in each
            hint = (
                "it is an export of version 1; import it into version 3, and export it there"
                if old
                else "export workflows in DolphinScheduler: Workflow Definition, Export"
            )
            raise UsageError(f"{path} is not an exported workflow; {hint}")
        yield each


def _read_workflow(path: Path, values: Mapping[str, Any]) -> Workflow:
    definition = read_object(_first(values, _DEFINITION), "the definition")
    tasks = [_read_task(each) for each in read_objects(_first(values, _TASKS), "the list of tasks")]
    before: dict[str, list[str]] = {}
    for relation in read_objects(_first(values, _RELATIONS), "the list of relations"):
        start, end = _text(relation.get("preTaskCode")), _text(relation.get("postTaskCode"))
        known = before.setdefault(end, [])
        if start not in ("", "0", *known):
            known.append(start)
    name = _text(definition.get("name"))
    codes = {task.code for task in tasks}
    unknown = sorted({*before, *(each for pre in before.values() for each in pre)} - codes)
    if len(codes) < len(tasks) or unknown or not name:
        listed = ", ".join(unknown)
        raise UsageError(
            f"{path}: workflow {name or 'without a name'}: "
            + (
                f"it has relations of unknown tasks ({listed})"
                if unknown
                else "a code occurs twice"
            )
            + "; export the workflow again"
        )
    by_code = {task.code: task for task in tasks}
    try:
        order = tuple(
            TopologicalSorter({code: before.get(code, ()) for code in by_code}).static_order()
        )
    except CycleError:
        raise UsageError(f"{path}: workflow {name}: its relations have a cycle") from None
    return Workflow(
        place=f"{path.name}: {name}",
        code=_text(definition.get("code")),
        name=name,
        project=_text(definition.get("projectCode")),
        description=_text(definition.get("description")),
        is_online=_text(definition.get("releaseState")).upper() in ("ONLINE", "1"),
        execution=_text(definition.get("executionType")).upper() or "PARALLEL",
        timeout=_whole(definition.get("timeout")),
        parameters=_read_parameters(
            definition.get("globalParams") or definition.get("globalParamList")
        ),
        tasks={code: by_code[code] for code in order},
        before=before,
        schedule=_read_schedule(values.get("schedule") or definition.get("schedule")),
    )


def _read_task(values: Mapping[str, Any]) -> Task:
    parameters = read_object(values.get("taskParams"), "taskParams")
    return Task(
        code=_text(values.get("code")),
        name=_text(values.get("name")),
        kind=_text(values.get("taskType")).upper(),
        values=values,
        parameters=parameters,
        local=_read_parameters(parameters.get("localParams")),
    )


def _read_schedule(given: Any) -> Schedule | None:
    values = read_object(given, "schedule")
    if not _text(values.get("crontab")):
        return None
    return Schedule(
        crontab=_text(values["crontab"]),
        timezone=_text(values.get("timezoneId")),
        end=_text(values.get("endTime")),
        is_online=_text(values.get("releaseState")).upper() in ("ONLINE", "1"),
        values=values,
    )


def _read_parameters(given: Any) -> list[Parameter]:
    return [
        Parameter(
            name=_text(each.get("prop")),
            type=_text(each.get("type")).upper() or "VARCHAR",
            value=_text(each.get("value")),
            is_output=_text(each.get("direct")).upper() == "OUT",
        )
        for each in read_objects(given, "the list of parameters")
        if _text(each.get("prop"))
    ]


def _first(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _parse(value: Any, name: str) -> Any:
    """Return a value; one that is JSON in a text is parsed."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        raise UntranslatableError(f"{name} is not JSON: {value[:40]!r}") from None


def read_object(value: Any, name: str) -> Mapping[str, Any]:
    """Return an object, which may be JSON in a text; empty if it is absent.

    Raises UntranslatableError for another value; `name` names it.
    """
    parsed = _parse(value, name)
    if parsed is not None and not isinstance(parsed, dict):
        raise UntranslatableError(f"{name} must be an object, not {str(parsed)[:40]!r}")
    return parsed or {}


def read_objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    """Return a list of objects, which may be JSON in a text; empty if it is absent.

    Raises UntranslatableError for another value; `name` names it.
    """
    parsed = _parse(value, name)
    if parsed is None:
        return []
    if not isinstance(parsed, list) or not all(isinstance(each, dict) for each in parsed):
        raise UntranslatableError(f"{name} must be a list of objects, not {str(parsed)[:40]!r}")
    return parsed


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _whole(value: Any) -> int:
    text = _text(value)
    return int(text) if is_whole(text) else 0
