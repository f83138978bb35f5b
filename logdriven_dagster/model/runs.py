"""Values exchanged between execution and engine about one window."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.quality import QualityReport
from logdriven_dagster.model.source_rows import FileRows, SourceRows
from logdriven_dagster.model.windows import Reads, TimeWindow


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """The work that a process is expected to do, by what its windows took before."""

    rows: int
    """Rows that its windows read from their sources."""
    seconds: float
    """Time for its windows."""


@dataclass(frozen=True, slots=True)
class WindowRun:
    """One attempt as the engine processes it, step by step."""

    job_id: int
    table: str
    window: TimeWindow
    fencing_token: int
    """Fencing token of the attempt, greater than that of any earlier one at the window.

    Targets reject smaller tokens for the same window.
    """
    variables: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Variables of project and table and `--override` values; later ones take precedence."""
    reads: Mapping[str, Reads] = field(default_factory=dict)
    """Ranges that are read, by upstream table."""
    files: tuple[RegisteredFile, ...] = ()
    """The files that a table of files reads."""
    row: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Values of the row, as data, for a step with `loop_over`."""
    step_id: str = ""
    """The current step; empty before the first one."""

    def for_step(self, step_id: str) -> "WindowRun":
        """Return the attempt at one of its steps."""
        return replace(self, step_id=step_id)

    @property
    def label(self) -> str:
        """Description of the step for Spark's UI and for errors."""
        return f"{self.table} {self.window} {self.step_id}".rstrip()

    def build_superseded_error(self, token: int) -> AttemptLostError:
        """Return the error for a target that already has a greater token for the window."""
        part = f"step {self.step_id} is not" if self.step_id else "nothing is"
        return AttemptLostError(
            f"job {self.job_id}, {self.table} {self.window}: {part} published, "
            f"because a newer attempt has the window (token {token} over {self.fencing_token})"
        )


def combine_runs(runs: Sequence[WindowRun]) -> WindowRun:
    """Combine the runs of adjoining windows into one that covers and reads all of their ranges."""
    if len(runs) == 1:
        return runs[0]
    window = runs[0].window.up_to_end_of(runs[-1].window)
    reads = {name: _unite(run.reads[name] for run in runs) for name in runs[0].reads}
    return replace(runs[0], window=window, reads=reads)


def _unite(reads: Iterable[Reads]) -> Reads:
    spans: list[TimeWindow] = []
    for each in reads:
        if each is None:
            return None
        for span in each:
            if spans and spans[-1].end >= span.start:
                longest = max(spans[-1], span, key=lambda each: each.end)
                spans[-1] = spans[-1].up_to_end_of(longest)
            else:
                spans.append(span)
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result; `type` is Spark's DDL name."""

    name: str
    type: str
    comment: str | None = None
    """Description of the column in the table's metadata."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A step's result, staged out of reach of readers (or only a view, if it has no target)."""

    step_id: str
    counts: Counts
    source_type: str | None
    target_type: str | None
    columns: tuple[Column, ...]
    current_files: tuple[str, ...] = ()
    """Base names of the source files that were read, for `job_log.current_file`."""
    output: str = ""
    location: str | None = None
    """The staging folder or staging table."""
    state: str | None = None
    """JSON with which another process can take over the staged result; None for a view."""
    quality: QualityReport | None = None
    """Results of the step's data quality rules; None without rules."""
    source_rows: SourceRows | None = None
    """Distribution of all rows of the source over windows, if this step counted them."""
    listed_files: tuple[FileRows, ...] = ()
    """The files of a source whose rows are counted by file, as they were before it was read."""
    window_files: tuple[FileRows, ...] = ()
    """The files of a source whose path names the window, as they were before it was read."""

    def add_notes(self, *notes: str) -> "Staged":
        """Return the step with notes prepended to its log output; empty ones are dropped."""
        return replace(self, output="; ".join(filter(None, [*notes, self.output])))

    def with_source_rows(self, rows: SourceRows) -> "Staged":
        """Return the step with the rows of its source outside any window, in counts and output."""
        counts = replace(self.counts, outside=rows.outside)
        return replace(self.add_notes(rows.message), counts=counts, source_rows=rows)


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows that an upsert inserted with new keys, and rows that replaced others.

    The rest of a window's rows are older than the target's rows with the same keys.
    """

    inserted: int
    updated: int


@dataclass(frozen=True, slots=True)
class Published:
    """A window that became visible to readers."""

    step_id: str
    target: str
    """Name of the target for readers: Iceberg identifier, folder, or database table."""
    snapshot_id: str | None = None
    """Iceberg's snapshot, if the target has one."""
    rows: int | None = None
    """Rows of this window in the target now; None for upserts and foreign tables."""
    merged: Merged | None = None
    """Result of an upsert; None if it was published before without a record of the counts."""
    table_rows: int | None = None
    """Rows of the whole target after publication; None if counting requires a scan."""

    def add_counts(self, staged: Staged) -> Staged:
        """Return the staged step with the counts that only its publication could determine."""
        if self.merged is None:
            return staged
        inserted, updated = self.merged.inserted, self.merged.updated
        return replace(staged, counts=replace(staged.counts, inserted=inserted, updated=updated))
