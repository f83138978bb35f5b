"""Comparison of two versions of a table: every difference with its class."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from logdriven_dagster.config.changes.canonical import canonicalize_python
from logdriven_dagster.config.changes.effects import read_table, reduce_value
from logdriven_dagster.config.changes.fields import BOUNDS, Effect, get_effect
from logdriven_dagster.config.changes.queries import compare_queries
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig

_QUERY_FIELDS = ("sql", "sql_file", "python")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TableChange:
    """One difference between two versions of a table."""

    effect: Effect
    what: str
    """The difference in words, such as `changed filter`."""
    step: str | None = None
    columns: tuple[str, ...] | None = None
    """The columns of the result that it concerns; None if it concerns all rows, or none."""
    ages_windows: bool = True
    """False if finished windows remain as new ones would be: no effect, or only other windows."""


def compare_tables(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[TableChange, ...]:
    """Return the differences of two registered contents, the one with the largest effect first.

    A content consists of `values` and `files`, see `declaring`.
    """
    tables = read_table(before), read_table(after)
    if tables[0] is None or tables[1] is None:
        return (TableChange(Effect.SHAPE, "a version that cannot be read"),)
    files = before.get("files", {}), after.get("files", {})
    found = list(_compare_tables(tables[0], tables[1], files))
    return tuple(sorted(found, key=lambda change: -change.effect))


def find_largest_effect(changes: Sequence[TableChange]) -> Effect:
    """Return the effect of several changes together."""
    return max((change.effect for change in changes), default=Effect.COSMETIC)


def describe_changes(changes: Sequence[TableChange]) -> str:
    """Describe the changes that make finished windows old, for display in one line."""
    texts = list(dict.fromkeys(change.what for change in changes if change.ages_windows))
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return ", ".join([*texts[:_SHOWN], *more])


_Files: TypeAlias = tuple[Mapping[str, str], Mapping[str, str]]


def _compare_tables(
    before: TableConfig, after: TableConfig, files: _Files
) -> Iterator[TableChange]:
    for name in type(after).model_fields:
        one, other = getattr(before, name), getattr(after, name)
        if one == other and name != "steps":
            continue
        effect = get_effect(TableConfig, name)
        if name == "steps":
            yield from _compare_steps(before, after, files)
        elif name in ("variables", "properties"):
            yield _judge_values(name, before, after, files)
        elif reduce_value(one, {}) == reduce_value(other, {}):
            yield TableChange(Effect.COSMETIC, f"changed {name}", ages_windows=False)
        else:
            ages = effect is not Effect.COSMETIC and name not in BOUNDS
            yield TableChange(effect, f"changed {name}", ages_windows=ages)


def _judge_values(name: str, before: TableConfig, after: TableConfig, files: _Files) -> TableChange:
    """Return the effect of changed variables or properties, which may be a part of any query."""
    texts = "\0".join(
        [after.model_dump_json(), before.model_dump_json(), *files[0].values(), *files[1].values()]
    )
    one, other = getattr(before, name), getattr(after, name)
    changed = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    is_text = any(f"${{{key}" in texts for key in changed)
    what = f"changed {name} {', '.join(sorted(changed))}"
    return TableChange(Effect.SHAPE if is_text else Effect.VALUES, what)


def _compare_steps(before: TableConfig, after: TableConfig, files: _Files) -> Iterator[TableChange]:
    names = [[step.step for step in table.steps] for table in (before, after)]
    earlier = {step.step: step for step in before.steps}
    if names[0] != names[1]:
        gone = [name for name in names[0] if name not in names[1]]
        new = [name for name in names[1] if name not in names[0]]
        for what, steps in (("removed step", gone), ("added step", new)):
            for name in steps:
                yield TableChange(Effect.SHAPE, f"{what} {name}", name)
        if not gone and not new:
            yield TableChange(Effect.SHAPE, "steps in another order")
    last = next(step.step for step in reversed(after.steps) if step.target)
    for step in after.steps:
        if step.step not in earlier:
            continue
        for change in _compare_step(earlier[step.step], step, files):
            if change.effect is Effect.ADDITIVE and step.step != last:
                yield _judge_inner_column(change, after, files[1])
            else:
                yield change


def _judge_inner_column(
    change: TableChange, table: TableConfig, files: Mapping[str, str]
) -> TableChange:
    """Return the effect of a new column in a step that later steps read."""
    others = [step for step in table.steps if step.step != change.step]
    queries = [_get_query(step, files) for step in others]
    # A query without * names the columns that it reads.
    by_name = all(query is not None and "*" not in query.replace("(*)", "") for query in queries)
    effect = Effect.VALUES if by_name else Effect.SHAPE
    return TableChange(effect, change.what, change.step)


def _compare_step(before: StepConfig, after: StepConfig, files: _Files) -> Iterator[TableChange]:
    name = after.step
    yield from _compare_queries(before, after, files)
    for field in type(after).model_fields:
        one, other = getattr(before, field), getattr(after, field)
        if field in _QUERY_FIELDS or one == other:
            continue
        if field in ("source", "target") and type(one) is type(other) and one is not None:
            yield from _compare_parts(field, one, other, name)
        elif reduce_value(one, files[0]) == reduce_value(other, files[1]):
            yield TableChange(Effect.COSMETIC, f"changed {field}", name, ages_windows=False)
        elif field in ("source", "target"):
            yield TableChange(Effect.SHAPE, f"changed {field}", name)
        elif field == "quality" and one is not None and other is not None:
            yield from _compare_parts(field, one, other, name)
        else:
            effect = get_effect(StepConfig, field)
            ages = effect is not Effect.COSMETIC
            yield TableChange(effect, f"changed {field}", name, ages_windows=ages)


def _compare_parts(
    place: str, before: BaseModel, after: BaseModel, step: str
) -> Iterator[TableChange]:
    """Yield the changed fields of a source, a target or the quality rules."""
    for field in type(after).model_fields:
        one, other = getattr(before, field), getattr(after, field)
        if one != other:
            effect = get_effect(type(after), field)
            if reduce_value(one, {}) == reduce_value(other, {}):
                effect = Effect.COSMETIC
            ages = effect is not Effect.COSMETIC
            yield TableChange(effect, f"changed {place}.{field}", step, ages_windows=ages)


def _compare_queries(before: StepConfig, after: StepConfig, files: _Files) -> Iterator[TableChange]:
    one, other = _get_query(before, files[0]), _get_query(after, files[1])
    if one is not None and other is not None:
        if one == other:
            return
        changes = compare_queries(one, other, _list_keys(before) | _list_keys(after))
        for change in changes:
            yield TableChange(change.effect, change.what, after.step, change.columns)
        if not changes:
            what = "the same query in another form"
            yield TableChange(Effect.COSMETIC, what, after.step, ages_windows=False)
    elif (one, before.python) != (other, after.python):
        yield TableChange(Effect.SHAPE, "another kind of query", after.step)
    yield from _compare_code(before, after, files)


def _compare_code(before: StepConfig, after: StepConfig, files: _Files) -> Iterator[TableChange]:
    if after.python is None or before.python != after.python:
        return
    path = after.python.rpartition(":")[0]
    one, other = files[0].get(path), files[1].get(path)
    if one == other:
        return
    if None not in (one, other) and canonicalize_python(one or "") == canonicalize_python(
        other or ""
    ):
        yield TableChange(Effect.COSMETIC, "formatting of Python", after.step, ages_windows=False)
    else:
        yield TableChange(Effect.SHAPE, "changed Python function", after.step)


def _get_query(step: StepConfig, files: Mapping[str, str]) -> str | None:
    """Return the query of a step; None for one without."""
    return step.sql if step.sql_file is None else files.get(step.sql_file, step.sql_file)


def _list_keys(step: StepConfig) -> set[str]:
    """Return the columns by which rows of a step are identified or assigned to windows."""
    target, quality = step.target, step.quality
    keys = {*getattr(target, "key", ()), *(quality.id if quality else ())}
    return keys | ({target.window_column} if target and target.window_column else set())
