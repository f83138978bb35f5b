"""Incremental type of Kafka topics: windows are offset ranges."""

from typing import Any

from pydantic import ValidationInfo

from logdriven_dagster.config.models.incremental.types import SlicedType
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.model import offsets
from logdriven_dagster.model.windows import ALONG


class Offsets(SlicedType):
    """Windows from the last loaded offsets to the newest ones."""

    name = "kafka_offset"
    along = ALONG[name]
    options = frozenset({"max_offsets_per_window"})
    cut = "one step with a source of type kafka"
    first_low = "earliest"
    example = ("{}", "{}")

    def start(self, value: Any, info: ValidationInfo) -> str:
        """Parse `default_start`: `earliest`, `latest`, or offsets by topic and partition.

        Raises ValueError for any other value.
        """
        _ = info
        if value in ("earliest", "latest"):
            return str(value)
        try:
            written = isinstance(value, str)
            return offsets.format_offsets(
                offsets.parse(value) if written else offsets.flatten_offsets(value)
            )
        except ValueError as error:
            fix = 'must be earliest, latest or offsets such as {"topic": {"0": 42}}'
            raise ValueError(f"{fix}; {error}") from None

    def cuts(self, source: Source) -> bool:
        return source.has_offsets

    def slice_text(self, number: str, start: str | None, end: str | None) -> str:
        if not (start and end and start.startswith("{") and end.startswith("{")):
            return number
        messages = sum(span.stop - span.start for span in offsets.get_spans(start, end).values())
        return f"{number}, {messages:,} offsets"
