"""Staging the windows of a stretch in one pass: Spark writes a folder for each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX
from logdriven_dagster.engine.storage.staging import (
    StagedRows,
    Stamp,
    Store,
    data_files,
    new_folder,
    remove_folder,
    staging_folder,
    write,
)
from logdriven_dagster.engine.targets.iceberg.files import location
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.readwriter import DataFrameWriter


@dataclass(frozen=True, slots=True)
class Pass:
    """What one query staged."""

    rows: tuple[StagedRows, ...]
    """The rows of each window."""
    source_rows: int | None
    """What the query read for all of them."""


class StretchStore(Store, Protocol):
    """A store that takes several windows at once.

    What it stages is rows of single windows: whoever takes one of them over needs no other.
    """

    def stage_windows(self, frame: "DataFrame", stamps: Sequence[Stamp]) -> Pass:
        """Write the frame, whose rows carry the number of their window, in one pass."""
        ...

    def publish_windows(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Make all windows visible; which of them comes first is up to the store."""
        ...

    def fence_windows(self, stamps: Sequence[Stamp]) -> None:
        """Refuse from now on what older attempts at these windows publish."""
        ...

    def discard_windows(self, staged: Sequence[StagedRows]) -> None:
        """Remove what was staged and will not be published."""
        ...

    def windows_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """The rows of all of them, for later steps and checks."""
        ...


def whole(stamps: Sequence[Stamp]) -> Stamp:
    """What Spark's jobs and the folder that they write to are called."""
    window = TimeWindow(stamps[0].window.start, stamps[-1].window.end)
    return replace(stamps[0], step_id=f"{stamps[0].step_id}__stretch", window=window)


def stage_folders(
    frame: "DataFrame",
    parent: Path,
    stamps: Sequence[Stamp],
    save: "Callable[[DataFrameWriter, str], None]",
    count: Callable[[Path], int],
) -> Pass:
    """Write the frame below `parent`, and give each window its own folder.

    `save` writes to a path, `count` tells the rows of a file. No folder is left if anything fails.
    """
    stamp = whole(stamps)
    folder = new_folder(parent, stamp.job_id, stamp.step_id)
    made: list[Path] = []
    writer = frame.write.mode("append").partitionBy(WINDOW_INDEX)
    schema = frame.drop(WINDOW_INDEX).schema
    try:
        counts = write(frame, stamp, lambda: save(writer, str(folder)))
        staged = []
        for number, each in enumerate(stamps):
            made.append(staging_folder(parent, each))
            part = folder / f"{WINDOW_INDEX}={number}"
            if part.is_dir():
                part.rename(made[-1])
            rows = {path: count(path) for path in data_files(made[-1])}
            files = tuple(location(path) for path, found in rows.items() if found)
            total, token = sum(rows.values()), each.fencing_token
            staged.append(StagedRows(each, str(made[-1]), schema, None, total, files, token))
    except BaseException:
        for path in made:
            remove_folder(path)
        raise
    finally:
        remove_folder(folder)
    return Pass(tuple(staged), counts.source)
