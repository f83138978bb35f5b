"""Incremental types whose windows take batches: arrived files, or deliveries of upstream tables."""

from collections.abc import Iterator
from typing import Any, NoReturn

from pydantic import ValidationInfo

from logdriven_dagster.config.models.incremental.types import DeclaredTable, SlicedType
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.model.batches import ALL_BATCHES
from logdriven_dagster.model.windows import ALONG


class _Batches(SlicedType):
    """Base of the types whose windows take batches from queues."""

    options = frozenset({"max_batches"})

    def start(self, value: Any, info: ValidationInfo) -> NoReturn:
        """Raise ValueError: a queue of batches has no start."""
        _ = value, info
        raise ValueError(f"tables of type {self.name} take all new deliveries; remove it")

    def slice_text(self, number: str, start: str | None, end: str | None) -> str:
        return f"{number}, batches {start} – {end}" if end else number


class Files(_Batches):
    """Windows of files that are not loaded yet. Source: BDRE, file registry."""

    name = "files"
    along = ALONG[name]
    registers_files = True
    default_batches = ALL_BATCHES
    cut = "one step with a source of files"

    def cuts(self, source: Source) -> bool:
        return isinstance(source, FilesSource)

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        yield from super().mistakes(table)
        for step in table.steps:
            source = step.source
            if isinstance(source, FilesSource) and source.missing_files != "fail":
                yield f"step {step.step}: missing_files: not for files; set on_empty"
            if not isinstance(source, FilesSource) or source.columns:
                continue
            if source.on_empty == "succeed":
                problem = (
                    "on_empty: succeed needs columns, because there is no file to infer them from"
                )
                yield f"step {step.step}: {problem}"


class Upstreams(_Batches):
    """Windows of deliveries, one for each success of an upstream table. Source: BDRE, batches."""

    name = "upstream"
    along = ALONG[name]
    takes_upstream_batches = True
    default_batches = 1

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        yield from super().mistakes(table)
        if not table.batch_dependencies:
            yield (
                "incremental_type upstream needs a table in depends_on that provides the deliveries"
            )
        steps = [step.step for step in table.steps]
        for dependency in table.table_dependencies:
            if dependency.step is not None and dependency.step not in steps:
                yield f"depends_on: {dependency.table}: unknown step {dependency.step}"


def get_file_source(table: DeclaredTable) -> FilesSource:
    """Return the source of new files of a table with `incremental_type: files`."""
    source = table.sliced_step.source
    assert isinstance(source, FilesSource)
    return source
