"""Hops of a transformation: steps that Kettle starts, and the paths of rows between them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_PASSES_ROWS = frozenset({"Dummy", "WriteToLog"})
"""Types of steps that pass each row on unchanged, and add none."""


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


def refuse_other_paths(
    root: "Element", steps: "Mapping[str, Element]", start: str, end: str
) -> None:
    """Raise UntranslatableError unless the output gets each row of the input once, and no other.

    `start` and `end` are the names of the input and output in `steps`.
    """
    hops = _map_enabled(root, steps)
    if not leads(root, steps, start, end):
        raise UntranslatableError("there is no enabled hop from the table input to the output")
    path = {
        name for name in steps if leads(root, steps, start, name) and leads(root, steps, name, end)
    }
    for name in sorted(path - {start, end}):
        if (kind := read_text(steps[name], "type")) not in _PASSES_ROWS:
            raise UntranslatableError(f"{name} ({kind}): it does not pass the rows on to {end}")
    for name, following in hops.items():
        if name not in path and (fed := [each for each in following if each in path - {start}]):
            raise UntranslatableError(f"{name}: its rows go to {fed[0]} as well")
        if name not in path or name == end or len(following) < 2:
            continue
        if read_text(steps[name], "distribute").upper() in ("", "Y"):
            to = ", ".join(following)
            raise UntranslatableError(
                f"{name}: its rows are distributed to {to}, each of which gets a part"
            )
        if sum(leads(root, steps, each, end) for each in following) > 1:
            raise UntranslatableError(f"{name}: its rows reach {end} on several paths, each time")


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


def read_text(element: "Element", name: str) -> str:
    """Return the text of an element within another one; empty if there is none."""
    return (element.findtext(name) or "").strip()
