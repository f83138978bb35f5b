"""Hops of a transformation: steps that Kettle starts, and the paths of rows between them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def find_idle_steps(root: "Element", steps: "Mapping[str, Element]") -> set[str]:
    """Return the steps that Kettle does not start.

    All of their hops are disabled, or they have no hop and are not drawn. Source: Kettle,
    TransMeta.getTransHopSteps.
    """
    every, enabled = set[str](), set[str]()
    for start, end, is_enabled in _list_hops(root, steps):
        every |= {start, end}
        enabled |= {start, end} if is_enabled else set()
    alone = steps.keys() - every
    hidden = {name for name in alone if read_text(steps[name], "GUI/draw").upper() != "Y"}
    return ((every - enabled) & steps.keys()) | hidden


def leads(root: "Element", steps: "Mapping[str, Element]", start: str, end: str) -> bool:
    """Return True if enabled hops lead from `start` to `end`, or both are the same step."""
    hops, reached, waiting = _map_enabled(root, steps), set[str](), [start]
    while waiting:
        step = waiting.pop()
        if step not in reached:
            reached.add(step)
            waiting += hops.get(step, ())
    return end in reached


def refuse_other_ways(root: "Element", steps: "Mapping[str, Element]") -> None:
    """Raise UntranslatableError for steps that run in copies, partitioned or on a cluster."""
    for name, step in steps.items():
        if (copies := read_text(step, "copies")) not in ("", "1"):
            raise UntranslatableError(f"{name}: it runs in {copies} copies")
        if read_text(step, "partitioning/method").lower() not in ("", "none"):
            raise UntranslatableError(f"{name}: its rows are partitioned")
        if read_text(step, "cluster_schema"):
            raise UntranslatableError(f"{name}: it runs on a cluster")
    names = _map_names(steps)
    for error in root.iterfind("step_error_handling/error"):
        source = names.get(read_text(error, "source_step").lower())
        if read_text(error, "is_enabled") == "Y" and source is not None:
            raise UntranslatableError(f"{source}: its errors are handled by another step")


def describe_foreign(name: str, kind: str) -> str:
    """Return the reason why a step is not translated, and the shortest way to replace it."""
    way = _WAYS.get(kind)
    return f"steps without a counterpart here: {name} ({kind})" + (f"; {way}" if way else "")


_IN_SQL = "write it in the query of the input, or as a `python` step"
_WAYS = {
    **dict.fromkeys(("ScriptValueMod", "ScriptValue", "Janino", "Formula"), _IN_SQL),
    **dict.fromkeys(("UserDefinedJavaClass", "RegexEval"), _IN_SQL),
    **dict.fromkeys(("DBJoin", "MergeRows"), _IN_SQL),
    **dict.fromkeys(
        ("Update", "Delete", "SynchronizeAfterMerge"), "write it as a statement of `pre_sql`"
    ),
    "CombinationLookup": "load the dimension in a file of its own, and look its keys up there",
    "BlockUntilStepsFinish": "split the file, and let one table depend on the other",
    "GetVariable": "use the variable in the query of the input",
    "TextFileOutput": "write these rows as a table with a target of type csv",
    "ExcelOutput": "write these rows as a table with a target of type csv",
    **dict.fromkeys(("CsvInput", "TextFileInput"), "read it as a source of type csv"),
    "ExcelInput": "read it as a source of type excel",
    "getXMLData": "read it as a source of type xml",
    "JsonInput": "read it as a source of type json",
}
"""Shortest way to replace the steps of a type."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step on the path to an output, and the steps that it reads."""

    name: str
    kind: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepTypes:
    """The types of steps, by what they do with rows."""

    passing: Collection[str]
    """Types that send on rows, changed or as they are."""
    silent: Collection[str]
    """Types that only execute or count."""
    producing: Collection[str]
    """Types that read no rows of other steps."""


def trace_path(
    root: "Element",
    steps: "Mapping[str, Element]",
    end: str,
    types: StepTypes,
) -> list[PathStep]:
    """Return the table inputs and row steps whose rows reach an output, in running order.

    Raises UntranslatableError for rows of other steps, and for rows that are distributed to several
    steps.
    """
    hops = _map_enabled(root, steps)
    before: dict[str, list[str]] = {}
    for name, following in hops.items():
        for each in following:
            before.setdefault(each, []).append(name)
    path: dict[str, tuple[str, ...]] = {}
    waiting = list(before.get(end, ()))
    while waiting:
        name = waiting.pop()
        if name in path or name == end:
            continue
        kind = _kind(steps[name])
        if kind in types.silent and kind not in types.passing:
            raise UntranslatableError(f"{name} ({kind}): it does not pass the rows on to {end}")
        if kind not in types.passing and kind not in types.producing:
            raise UntranslatableError(describe_foreign(name, kind))
        path[name] = () if kind in types.producing else tuple(before.get(name, ()))
        waiting += path[name]
        _refuse_distribution(name, steps[name], hops[name])
    if not path:
        raise UntranslatableError("there is no enabled hop from the table input to the output")
    if unfed := [
        name for name in path if not path[name] and _kind(steps[name]) not in types.producing
    ]:
        raise UntranslatableError(f"{unfed[0]}: it gets no rows")
    path[end] = tuple(before[end])
    try:
        order = tuple(TopologicalSorter(path).static_order())
    except CycleError:
        raise UntranslatableError("its hops have a cycle") from None
    return [PathStep(name, _kind(steps[name]), path[name]) for name in order]


def refuse_distribution(root: "Element", steps: "Mapping[str, Element]", name: str) -> None:
    """Raise UntranslatableError if a step distributes its rows to several steps."""
    _refuse_distribution(name, steps[name], _map_enabled(root, steps).get(name, ()))


def _refuse_distribution(name: str, step: "Element", following: Sequence[str]) -> None:
    is_split = read_text(step, "distribute").upper() in ("", "Y")
    if len(following) > 1 and is_split and _kind(step) not in _TARGETED:
        raise UntranslatableError(
            f"{name}: its rows are distributed to {', '.join(following)}, each of which gets a part"
        )


_TARGETED = frozenset({"FilterRows", "SwitchCase"})
"""Types of steps that name the steps to which they send rows."""


def _map_enabled(root: "Element", steps: "Mapping[str, Element]") -> dict[str, list[str]]:
    """Return the successors of each step by enabled hops, in the order of the file."""
    hops: dict[str, list[str]] = {}
    for start, end, is_enabled in _list_hops(root, steps):
        if is_enabled and {start, end} <= steps.keys():
            hops.setdefault(start, []).append(end)
    return hops


def _list_hops(root: "Element", steps: "Mapping[str, Element]") -> Iterator[tuple[str, str, bool]]:
    """Yield both ends of each hop, and True if it is enabled, as one is that does not say so.

    Source: Kettle, TransHopMeta, which finds steps by their names in any case.
    """
    names = _map_names(steps)
    for hop in root.iterfind("order/hop"):
        start, end = read_text(hop, "from"), read_text(hop, "to")
        is_enabled = read_text(hop, "enabled").upper() in ("", "Y")
        yield names.get(start.lower(), start), names.get(end.lower(), end), is_enabled


def _map_names(steps: "Mapping[str, Element]") -> dict[str, str]:
    return {name.lower(): name for name in steps}


def _kind(step: "Element") -> str:
    return read_text(step, "type")


def read_text(element: "Element", name: str) -> str:
    """Return the text of an element within another one; empty if there is none."""
    return (element.findtext(name) or "").strip()


def is_set(element: "Element", flag: str) -> bool:
    """Return True if a flag of a step is Y."""
    return read_text(element, flag).upper() == "Y"


def refuse_flags(name: str, step: "Element", flags: Sequence[str]) -> None:
    """Raise UntranslatableError if one of the flags of a step is set."""
    for flag in flags:
        if is_set(step, flag):
            raise UntranslatableError(f"{name}: {flag} is set")
