"""Order of tasks: relations, conditions with their branches, forbidden and dependent tasks.

Tasks that only order others (CONDITIONS, DEPENDENT, and forbidden tasks) become no tables: the
tasks after them wait for what these wait for. Source: DolphinScheduler, relations and conditions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from logdriven_dagster.plugins.importers.dolphinscheduler.definitions import (
    Task,
    Workflow,
    read_object,
    read_objects,
)
from logdriven_dagster.plugins.importers.drafts import UntranslatableError

Outcome: TypeAlias = Literal["success", "failure", "always"]

_OPPOSITE: Mapping[Outcome, Outcome] = {"success": "failure", "failure": "success"}
_STATES: Mapping[str, Outcome] = {"SUCCESS": "success", "FAILURE": "failure"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A task that another one waits for, its outcome, and minutes to wait after that."""

    task: str
    outcome: Outcome = "success"
    delay: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    """A run of another workflow, or of one of its tasks, that a DEPENDENT task waits for."""

    task: str
    """Code of the DEPENDENT task."""
    workflow: str
    upstream: str
    """Code of the awaited task; 0 or -1 is the whole workflow."""
    cycle: str
    date: str


@dataclass(slots=True)
class Order:
    """The order of the tasks of a workflow."""

    workflow: Workflow
    _branches: dict[str, list[Requirement]] = field(default_factory=dict)

    def requirements(self, code: str) -> list[Requirement]:
        """Return what a task waits for. Raises UntranslatableError if this cannot be expressed."""
        task = self.workflow.tasks[code]
        found: dict[str, Requirement] = {}
        for each in (*self._before(task, task.number("delayTime")), *self._branch(code)):
            other = found.setdefault(each.task, each)
            if other.outcome != each.outcome and "always" not in (other.outcome, each.outcome):
                name = self.workflow.tasks[each.task].name
                raise UntranslatableError(f"it waits for success and failure of {name}")
            if other.outcome == "always" or each.delay > other.delay:
                outcome = each.outcome if other.outcome == "always" else other.outcome
                found[each.task] = Requirement(each.task, outcome, max(each.delay, other.delay))
        return list(found.values())

    def expectations(self, code: str) -> list[Expectation]:
        """Return the runs of other workflows that DEPENDENT tasks before a task wait for."""
        found = []
        for before in self.workflow.before.get(code, ()):
            task = self.workflow.tasks[before]
            if task.kind == "DEPENDENT" and task.is_enabled:
                found += list_expectations(task)
            if not is_run(task):
                found += self.expectations(before)
        return list(dict.fromkeys(found))

    def is_delayed_root(self, code: str) -> int:
        """Return the minutes that a task without a task before it waits after its schedule."""
        task = self.workflow.tasks[code]
        before = [self.workflow.tasks[each] for each in self.workflow.before.get(code, ())]
        roots = [self.is_delayed_root(each.code) for each in before if not is_run(each)]
        if any(is_run(each) for each in before):
            return 0
        return task.number("delayTime") + max(roots, default=0)

    def _before(self, task: Task, delay: int) -> Iterator[Requirement]:
        for code in self.workflow.before.get(task.code, ()):
            before = self.workflow.tasks[code]
            if before.kind == "CONDITIONS" and before.is_enabled:
                yield from self._conditions(before, task, delay + before.number("delayTime"))
            elif is_run(before):
                yield Requirement(code, delay=delay)
            else:
                own = before.number("delayTime") if before.is_enabled else 0
                yield from self._before(before, delay + own)

    def _conditions(self, node: Task, task: Task, delay: int) -> Iterator[Requirement]:
        """Yield what a branch of CONDITIONS waits for, its items among the tasks before it."""
        met = self._is_met_branch(node, task)
        items = list_items(node, "AND" if met else "OR")
        for code, outcome in items:
            if code not in self.workflow.tasks or not is_run(self.workflow.tasks[code]):
                raise UntranslatableError(f"{node.name}: it judges a task that does not run")
            yield Requirement(code, outcome if met else _OPPOSITE[outcome], delay)
        judged = {code for code, _ in items}
        for each in self._before(node, 0):
            if each.task not in judged:
                yield Requirement(each.task, "always", delay)

    def _is_met_branch(self, node: Task, task: Task) -> bool:
        """Return True for the branch of a condition that holds, False for the other one."""
        result = read_object(node.parameters.get("conditionResult"), "conditionResult")
        branches = []
        for name in ("successNode", "failedNode"):
            codes = result.get(name)
            branches.append(task.code in map(str, codes if isinstance(codes, list) else [codes]))
        if branches.count(True) != 1:
            raise UntranslatableError(f"{node.name}: it leads to {task.name} in no single branch")
        return branches[0]

    def _branch(self, code: str) -> list[Requirement]:
        """Return the conditions of the branch that a task is in, which skip all of its tasks.

        Raises UntranslatableError if the task joins branches: DolphinScheduler ignores skipped
        tasks there, but a table waits for all.
        """
        if code in self._branches:
            return self._branches[code]
        task, found = self.workflow.tasks[code], list[frozenset[Requirement]]()
        for before in map(self.workflow.tasks.__getitem__, self.workflow.before.get(code, ())):
            branch = frozenset(self._branch(before.code))
            if before.kind == "CONDITIONS" and before.is_enabled:
                branch |= frozenset(self._conditions(before, task, 0))
            found.append(branch)
        if len(set(found)) > 1:
            raise UntranslatableError(
                "it joins the branches of a condition; let it depend on the tables of one branch, "
                "or make one table of each branch"
            )
        self._branches[code] = sorted(found[0], key=lambda each: each.task) if found else []
        return self._branches[code]


def is_run(task: Task) -> bool:
    """Return True if a task does work of its own, and does not only order others."""
    return task.is_enabled and task.kind not in ("CONDITIONS", "DEPENDENT")


def list_items(node: Task, operator: str) -> list[tuple[str, Outcome]]:
    """Return the judged tasks of CONDITIONS, if `operator` joins them or there is only one.

    Raises UntranslatableError for other expressions: a table waits for all of its conditions.
    """
    items: list[tuple[str, Outcome]] = []
    for each in _flatten(node, operator):
        outcome = _STATES.get(str(each.get("status")).upper())
        if outcome is None:
            raise UntranslatableError(f"{node.name}: unknown status {each.get('status')}")
        items.append((str(each.get("depTaskCode")), outcome))
    if not items:
        raise UntranslatableError(f"{node.name}: it has no conditions")
    return items


def list_expectations(task: Task) -> list[Expectation]:
    """Return the awaited runs of a DEPENDENT task; several ones must be joined by AND."""
    return [
        Expectation(
            task=task.code,
            workflow=str(each.get("definitionCode")),
            upstream=str(each.get("depTaskCode", 0)),
            cycle=str(each.get("cycle")),
            date=str(each.get("dateValue")),
        )
        for each in _flatten(task, "AND")
    ]


def _flatten(node: Task, operator: str) -> Sequence[Mapping[str, Any]]:
    """Return the items of nested AND and OR, if `operator` joins all of them."""
    dependence = read_object(
        node.parameters.get("dependence") or node.values.get("dependence"), "dependence"
    )
    groups = [
        (str(group.get("relation")), items)
        for group in read_objects(dependence.get("dependTaskList"), "dependTaskList")
        if (items := read_objects(group.get("dependItemList"), "dependItemList"))
    ]
    used = {relation for relation, items in groups if len(items) > 1}
    used |= {str(dependence.get("relation"))} if len(groups) > 1 else set()
    if used - {operator}:
        joined = " and ".join(sorted(used))
        raise UntranslatableError(
            f"{node.name}: its items are joined by {joined}, but this needs any of several "
            "outcomes, and a table waits for all of its conditions; write one table for each item"
        )
    return [item for _, items in groups for item in items]
