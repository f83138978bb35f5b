"""Hops of a transformation: enabled steps, and the paths of rows between them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def find_disabled_steps(root: "Element", steps: "Mapping[str, Element]") -> set[str]:
    """Return the steps all of whose hops are disabled; Kettle does not start them.

    It starts a step that has no hop at all. Source: Kettle, TransMeta.getTransHopSteps.
    """
    every, enabled = set[str](), set[str]()
    for hop in root.iterfind("order/hop"):
        ends = {_text(hop, "from"), _text(hop, "to")}
        every |= ends
        enabled |= ends if _text(hop, "enabled") == "Y" else set()
    return (every - enabled) & steps.keys()


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
        if (copies := _text(step, "copies")) not in ("", "1"):
            raise UntranslatableError(f"{name}: it runs in {copies} copies")
        if _text(step, "partitioning/method").lower() not in ("", "none"):
            raise UntranslatableError(f"{name}: its rows are partitioned")
        if _text(step, "cluster_schema"):
            raise UntranslatableError(f"{name}: it runs on a cluster")
    for error in root.iterfind("step_error_handling/error"):
        source = _text(error, "source_step")
        if _text(error, "is_enabled") == "Y" and source in steps:
            raise UntranslatableError(f"{source}: its errors are handled by another step")


def refuse_other_paths(
    root: "Element", steps: "Mapping[str, Element]", start: str, end: str
) -> None:
    """Raise UntranslatableError unless each row of the input reaches the output exactly once.

    `start` and `end` are the names of the input and output in `steps`.
    """
    hops = _map_enabled(root, steps)
    if not leads(root, steps, start, end):
        raise UntranslatableError("there is no enabled hop from the table input to the output")
    for name, following in hops.items():
        on_the_way = leads(root, steps, start, name) and leads(root, steps, name, end)
        if not on_the_way or name == end or len(following) < 2:
            continue
        if _text(steps[name], "distribute") == "Y":
            to = ", ".join(following)
            raise UntranslatableError(
                f"{name}: its rows are distributed to {to}, each of which gets a part"
            )
        if sum(leads(root, steps, each, end) for each in following) > 1:
            raise UntranslatableError(f"{name}: its rows reach {end} on several paths, each time")


def _map_enabled(root: "Element", steps: "Mapping[str, Element]") -> dict[str, list[str]]:
    """Return the successors of each step by enabled hops, in the order of the file."""
    hops: dict[str, list[str]] = {}
    for hop in root.iterfind("order/hop"):
        start, end = _text(hop, "from"), _text(hop, "to")
        if _text(hop, "enabled") == "Y" and {start, end} <= steps.keys():
            hops.setdefault(start, []).append(end)
    return hops


def _text(element: "Element", name: str) -> str:
    return (element.findtext(name) or "").strip()
