"""What a table's incremental type asks of the rest of its file, and what it rules out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import FilesSource, JdbcSource, KafkaSource, Source

if TYPE_CHECKING:
    from logdriven_dagster.config.models.tables import TableConfig

_OPTIONS = {
    "window_size": ("auto_inc_id",),
    "lag": ("auto_inc_id",),
    "overlap": ("auto_inc_id",),
    "max_offsets_per_window": ("kafka_offset",),
    "max_batches": ("files", "upstream"),
}
_OF_FILES = frozenset({"version", "on_empty", "after_success", "move_to"})
_CUT = {
    "auto_inc_id": "one step whose source has a key_column",
    "kafka_offset": "one step with a source of type kafka",
    "files": "one step with a source of files",
}


def is_cut(table: "TableConfig", source: Source | None) -> bool:
    """Whether the table's windows are slices of this source."""
    match table.incremental_type:
        case "auto_inc_id":
            return source is not None and source.key_column is not None
        case "kafka_offset":
            return isinstance(source, KafkaSource)
        case "files":
            return isinstance(source, FilesSource)
        case _:
            return False


def file_source(table: "TableConfig") -> FilesSource:
    """Where the files of a table come from, `incremental_type: files`."""
    source = table.sliced_step.source
    assert isinstance(source, FilesSource)
    return source


def problems(table: "TableConfig") -> list[str]:
    """Everything in a table's file that its incremental type contradicts."""
    return [*_options(table), *(_slices if table.is_sliced else _times)(table)]


def _options(table: "TableConfig") -> Iterator[str]:
    kind = table.incremental_type
    for name, kinds in _OPTIONS.items():
        if name in table.model_fields_set and kind not in kinds:
            yield f"{name}: it is for incremental_type {' and '.join(kinds)}"
    if kind != "upstream":
        for dependency in table.depends_on:
            if dependency.cut_pattern is not None or dependency.step is not None:
                yield "depends_on: cut_pattern and step are for incremental_type upstream"


def _times(table: "TableConfig") -> Iterator[str]:
    for step in table.steps:
        if isinstance(step.source, FilesSource) and (
            of_files := _OF_FILES & step.source.model_fields_set
        ):
            yield f"step {step.step}: {', '.join(sorted(of_files))}: for incremental_type files"
        if isinstance(step.source, KafkaSource):
            yield f"step {step.step}: a source of type kafka needs incremental_type kafka_offset"
        if step.source is not None and step.source.key_column is not None:
            yield f"step {step.step}: key_column needs incremental_type auto_inc_id"


def _slices(table: "TableConfig") -> Iterator[str]:
    kind = table.incremental_type
    if not table.ordered:
        yield f"ordered: slices follow each other; {kind} tables are always ordered"
    if table.lookback:
        yield f"lookback: it is for windows of time, not for {kind}"
    if table.catch_up == "latest_only":
        yield f"catch_up: nothing of {kind} can be passed over"
    cut = [step.step for step in table.steps if is_cut(table, step.source)]
    if kind in _CUT and len(cut) != 1:
        yield f"incremental_type {kind} needs {_CUT[kind]}; there are {len(cut)}"
    if kind == "upstream" and not table.batch_dependencies:
        yield "incremental_type upstream needs a table in depends_on that makes the batches"
    looping = [step.step for step in table.steps if step.loop_over and step.step in cut]
    for name in looping:
        yield f"step {name}: loop_over: {kind} cuts the source of this step into slices, as a whole"
    yield from _columns(table)
    yield from _files(table)
    for dependency in table.depends_on if kind == "upstream" else ():
        if dependency.step is not None and dependency.step not in [s.step for s in table.steps]:
            yield f"depends_on: {dependency.table}: there is no step {dependency.step}"
    modes = [step.target.mode for step in table.steps if step.target]
    if table.overlap and set(modes) != {"upsert"}:
        yield "overlap: keys that are read twice need targets of mode upsert"


def _files(table: "TableConfig") -> Iterator[str]:
    for step in table.steps:
        source = step.source
        if not (isinstance(source, FilesSource) and is_cut(table, source)):
            continue
        if source.on_empty == "succeed" and not source.columns:
            yield f"step {step.step}: on_empty: succeed needs columns, since no file tells them"


def _columns(table: "TableConfig") -> Iterator[str]:
    for step in table.steps:
        for part, given in (("source", step.source), ("target", step.target)):
            if given is not None and given.window_column is not None:
                yield f"step {step.step}: {part}.window_column is for windows of time"
        source = step.source
        if isinstance(source, JdbcSource) and source.partitions > 1 and not source.key_column:
            yield f"step {step.step}: partitions cut along a key_column"
