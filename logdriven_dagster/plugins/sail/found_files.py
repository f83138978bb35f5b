"""Check that Sail reads all files of a plan: it silently skips files that it does not find."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from logdriven_dagster.engine.spark.connect.internals import plan
from logdriven_dagster.errors import TerminalStepError, TransientStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def files_of_plan(frame: "DataFrame") -> set[Path]:
    """Return the files that a frame's plan names, without a request to Sail."""
    return {_path(place) for place in _places(frame)}


def files_found(frame: "DataFrame") -> set[Path]:
    """Return the files of a frame; raise TerminalStepError if Sail does not find all of them."""
    named = _places(frame)
    found = set(frame.inputFiles()) if named else set()
    if len(found) != len(named):
        raise TerminalStepError(
            f"Sail finds {len(found)} of {len(named)} files, such as {min(named)}; it "
            "does not support special characters in a path: rename the folder, or use "
            "spark.engine: spark"
        )
    return {_path(place) for place in found}


def refuse_gone(files: set[Path]) -> None:
    """Raise TransientStepError if a file was removed, possibly before a query has read it."""
    if gone := [file for file in sorted(files) if not file.exists()]:
        raise TransientStepError(f"{gone[0]} was removed while it was read")


def _places(frame: "DataFrame") -> set[str]:
    untyped: Any = frame
    return set(_iter_paths(plan(frame).to_proto(untyped.sparkSession.client)))


def _path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path))


def _iter_paths(message: Any) -> Iterator[str]:
    """Yield the paths that a plan names."""
    if message.DESCRIPTOR.name == "DataSource":
        yield from message.paths
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _iter_paths(each)
