"""One table of the workflows that append to the same database table.

A project has one file per target. Workflows with equal windows and settings become the steps of one
table, whose last step unites their rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from logdriven_dagster.plugins.importers.drafts import DraftFile, Translation, Values
from logdriven_dagster.plugins.importers.naming import step_name

_OWN = frozenset({"table", "description", "tags", "steps"})
"""Fields in which united workflows may differ."""

_FUNCTION = '''"""Unite the rows of workflows that append to one table."""

from pyspark.sql import DataFrame


def unite({parameters}) -> DataFrame:
    """Return the rows of all steps. Fails if their columns or types differ."""
    first, *others = {names}
    columns = {{name.lower(): kind for name, kind in first.dtypes}}
    for other in others:
        found = {{name.lower(): kind for name, kind in other.dtypes}}
        if found != columns:
            raise ValueError(f"columns must be the same in all steps: {{columns}}, {{found}}")
        first = first.unionByName(other)
    return first
'''


def unite_writers(translation: Translation) -> None:
    """Replace the drafts that append to one database table by one draft.

    Workflows with other windows or settings become stubs, and are recorded with what differs.
    """
    for first, *others in _group(translation.drafts):
        united = [first]
        for other in others:
            if reason := _find_difference(united, other):
                origin = other.origin
                translation.leave(origin, str(other.path), reason)
                translation.drafts[translation.drafts.index(other)] = other.stub(reason)
            else:
                united.append(other)
        if len(united) > 1:
            _replace(translation, united)


def _group(drafts: Sequence[DraftFile]) -> list[list[DraftFile]]:
    """Return the drafts that append to the same table, two or more of each."""
    groups: dict[tuple[str, str], list[DraftFile]] = {}
    for draft in drafts:
        for target in _list_targets(draft):
            if (target["type"], target.get("mode")) == ("jdbc", "append"):
                found = groups.setdefault((target["connection"], target["table"].lower()), [])
                found += [draft] if draft not in found else []
    return [group for group in groups.values() if len(group) > 1]


def _list_targets(draft: DraftFile) -> list[Values]:
    return [step["target"] for step in draft.values["steps"] if "target" in step]


def _find_difference(united: Sequence[DraftFile], other: DraftFile) -> str | None:
    """Return the reason why a workflow is not united with those before it, or None."""
    first = united[0]
    name, way = first.values["table"], "unite them by hand, or write into tables of their own"
    if first.values["incremental_type"] not in ("time_window", "full"):
        return f"{name} writes to the same target by {first.values['incremental_type']}; {way}"
    for draft in (first, other):
        if len(_list_targets(draft)) > 1 or "target" not in draft.values["steps"][-1]:
            return f"{name} writes to the same target, and one of them to others as well; {way}"
    if other.files and other.path.parent != first.path.parent:
        return f"{name} writes to the same target, and has a Python file in another folder; {way}"
    names = sorted({*first.values, *other.values} - _OWN)
    differing = [each for each in names if first.values.get(each) != other.values.get(each)]
    last, own = first.values["steps"][-1], other.values["steps"][-1]
    differing += [
        each
        for each in sorted({*last, *own} - {"step", "source", "sql"})
        if last.get(each) != own.get(each) or each == "loop_over"
    ]
    if differing:
        return f"{name} writes to the same target with another {', '.join(differing)}; {way}"
    steps = {step["step"].lower() for draft in united for step in draft.values["steps"][:-1]}
    same = sorted(
        step["step"] for step in other.values["steps"][:-1] if step["step"].lower() in steps
    )
    if same:
        return f"{name} writes to the same target and has a step {same[0]}, too; rename one of them"
    return None


def _replace(translation: Translation, united: Sequence[DraftFile]) -> None:
    first = united[0]
    names = [draft.values["table"] for draft in united]
    translation.drafts[translation.drafts.index(first)] = _unite(united)
    for draft in united[1:]:
        translation.drafts.remove(draft)
    for theirs, ours in translation.names.items():
        if ours in names:
            translation.names[theirs] = names[0]
    for draft in translation.drafts:
        if "depends_on" in draft.values:
            draft.values["depends_on"] = list(_rename_awaited(draft.values["depends_on"], names))
    reason = (
        f"one table, {names[0]}, since they append to the same one: a window writes the rows of "
        "all in one transaction, its counts are their sum, and a failure of one stops all"
    )
    translation.note(first.origin, ", ".join(names), reason)


def _rename_awaited(depends: Sequence[Values], names: Sequence[str]) -> Iterator[Values]:
    seen = set()
    for each in depends:
        table = names[0] if each["table"] in names else each["table"]
        if table not in seen:
            seen.add(table)
            yield {**each, "table": table}


def _unite(united: Sequence[DraftFile]) -> DraftFile:
    first = united[0]
    steps: list[Values] = []
    comments = {key: value for key, value in first.comments.items() if key == "incremental_type"}
    sources = []
    taken = {step["step"].lower() for draft in united for step in draft.values["steps"][:-1]}
    for draft in united:
        *before, last = draft.values["steps"]
        name = step_name(draft.values["table"], taken)
        taken.add(name.lower())
        sources.append(name)
        kept = {key: value for key, value in last.items() if key not in _OF_TARGET}
        steps += [*before, {**kept, "step": name}]
        for key, value in draft.comments.items():
            own = key.replace(f"steps.{last['step']}", f"steps.{name}")
            comments.setdefault(own, value)
    last = first.values["steps"][-1]
    file = first.path.with_suffix(".py")
    written = {key: value for key, value in last.items() if key in _OF_TARGET}
    union = {"step": step_name("unite", taken), "python": f"{file.name}:unite", **written}
    values = {**first.values, "steps": [*steps, union]}
    if texts := [d.values["description"] for d in united if "description" in d.values]:
        values["description"] = "; ".join(dict.fromkeys(texts))
    origin = " ".join(dict.fromkeys(draft.origin for draft in united))
    files: dict[PurePosixPath, str] = {}
    for draft in united:
        files |= draft.files
    parameters = ", ".join(f"{name}: DataFrame" for name in sources)
    files[file] = _FUNCTION.format(parameters=parameters, names=", ".join(sources))
    return replace(first, values=values, origin=origin, comments=comments, files=files)


_OF_TARGET = frozenset({"target", "quality", "on_empty"})
"""Fields of the step that writes the rows."""
