"""Incremental type of ascending keys: windows are key ranges."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationInfo

from logdriven_dagster.config.models.incremental.types import DeclaredTable, SlicedType
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.model.windows import ALONG


class Keys(SlicedType):
    """Windows from the last loaded key to the newest key of the source."""

    name = "auto_inc_id"
    along = ALONG[name]
    options = frozenset({"window_size", "lag", "overlap", "on_key_reset"})
    assigns_windows_by = "key_column"
    looks_first = True
    cut = "one step whose source has a key_column"
    first_low = "0"
    example = ("0", "1")

    def start(self, value: Any, info: ValidationInfo) -> int:
        """Parse `default_start`, the key after which the first window begins.

        Raises ValueError if it is not a whole number.
        """
        _ = info
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value).strip()):
            raise ValueError(
                f"must be a whole number, the key after which rows are read, not {value!r}"
            )
        return int(value)

    def cuts(self, source: Source) -> bool:
        return source.key_column is not None

    def slice_text(self, number: str, start: str | None, end: str | None) -> str:
        _ = number
        return f"{start} – {end}" if end else f"after {start}"

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        yield from super().mistakes(table)
        modes = [step.target.write_mode for step in table.steps if step.target]
        if table.overlap and not (modes and all(mode.merges_by_key for mode in modes)):
            yield "overlap: needs targets of mode upsert, because keys are read twice"
