"""What execution and engine say to each other about one window."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Counts
from logdriven_dagster.model.files import RegisteredFile
from logdriven_dagster.model.quality import QualityReport
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Reads, TimeWindow


@dataclass(frozen=True, slots=True)
class WindowRun:
    """One attempt as the engine sees it, on its way from step to step."""

    job_id: int
    table: str
    window: TimeWindow
    fencing_token: int
    """The token of the attempt, greater than that of any earlier one at the window.

    Targets refuse smaller ones of the same window.
    """
    variables: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Project and table variables and `--override` values, the later ones winning."""
    reads: Mapping[str, Reads] = field(default_factory=dict)
    """Upstream table → what of it is read."""
    files: tuple[RegisteredFile, ...] = ()
    """The files that a table of files reads."""
    row: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The values of the row, which are data, for a step with `loop_over`."""
    step_id: str = ""
    """The step that it is at; empty before the first one."""

    def at(self, step_id: str) -> "WindowRun":
        """The attempt at one of its steps."""
        return replace(self, step_id=step_id)

    @property
    def label(self) -> str:
        """What Spark shows beside the jobs of a step, and errors of it say."""
        return f"{self.table} {self.window} {self.step_id}".rstrip()

    def superseded(self, token: int) -> AttemptLostError:
        """What to raise when the target knows a greater token of the window."""
        return AttemptLostError(
            f"job {self.job_id}, {self.table} {self.window}: step {self.step_id} is not published, "
            f"since a newer attempt has the window (token {token} over {self.fencing_token})"
        )


def whole_run(runs: Sequence[WindowRun]) -> WindowRun:
    """The runs of adjoining windows as one over their range, which reads what any of them reads."""
    if len(runs) == 1:
        return runs[0]
    window = runs[0].window.up_to_end_of(runs[-1].window)
    reads = {name: _union(run.reads[name] for run in runs) for name in runs[0].reads}
    return replace(runs[0], window=window, reads=reads)


def _union(reads: Iterable[Reads]) -> Reads:
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


@dataclass(frozen=True, slots=True)
class Staged:
    """A step's result, written where no reader looks (or only a view, if it has no target)."""

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
    """JSON with which another process can take over what is staged; None for a view."""
    quality: QualityReport | None = None
    """What the rules of the step found; None without rules."""
    source_rows: SourceRows | None = None
    """Where all rows of the source belong, if this step has looked."""

    def noted(self, *notes: str) -> "Staged":
        """The step with notes for the log before its own; empty ones are left out."""
        return replace(self, output="; ".join(filter(None, [*notes, self.output])))


@dataclass(frozen=True, slots=True)
class Merged:
    """What an upsert did: rows with new keys, and rows that replaced others.

    The rest of a window's rows are older than what the target holds of their keys.
    """

    inserted: int
    updated: int


@dataclass(frozen=True, slots=True)
class Published:
    """A window that became visible."""

    step_id: str
    target: str
    """What readers call it: the Iceberg identifier, folder, or database table."""
    snapshot_id: str | None = None
    """Iceberg's snapshot, where there is one."""
    rows: int | None = None
    """Rows that this window holds in the target now; None for upserts and foreign tables."""
    merged: Merged | None = None
    """What an upsert did; None if it was published before and nobody wrote that down."""
    table_rows: int | None = None
    """Rows of the whole target after it; None where somebody would have to count them."""

    def counted(self, staged: Staged) -> Staged:
        """The staged step with what only its publication could count."""
        if self.merged is None:
            return staged
        inserted, updated = self.merged.inserted, self.merged.updated
        return replace(staged, counts=replace(staged.counts, inserted=inserted, updated=updated))
