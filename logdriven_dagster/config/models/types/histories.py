"""Targets that keep each version of a row: slowly changing dimensions of type 2 (SCD 2)."""

from collections.abc import Mapping

from pydantic import Field, model_validator
from typing_extensions import Self

from logdriven_dagster.config.models.types.targets import TableTarget

_OPTIONS = ("sequence_by", "deleted_when", "snapshot", "track", "valid_from", "valid_to")


class HistoryTarget(TableTarget):
    """A table that can keep each version of a row, with the time in which it was valid."""

    takes_history = True

    sequence_by: str | None = Field(
        None,
        description="mode history: the column with the time of a change, which lies in the window; "
        "a window may then have several changes of a key. Default: the start of the window",
        examples=["changed_at"],
    )
    deleted_when: str | None = Field(
        None,
        description="mode history: SQL over the columns of the result; a row for which it is true "
        "closes the version of its key and starts no new one",
        examples=["op = 'D'"],
    )
    snapshot: bool | None = Field(
        None,
        description="mode history: true if a window has all rows of the source, so that a missing "
        "key was deleted; default: true for incremental_type full",
    )
    track: tuple[str, ...] = Field(
        (),
        description="mode history: the columns whose changes start a new version; the others have "
        "the values of the first change of a version. Default: all but the key and sequence_by",
        examples=[["city", "status"]],
    )
    valid_from: str = Field(
        "valid_from", description="mode history: the column with the start of a version"
    )
    valid_to: str = Field(
        "valid_to",
        description="mode history: the column with the end of a version, which is the start of the "
        "next one; NULL for the current version",
    )

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        if not self.write_mode.keeps_history:
            if given := [name for name in _OPTIONS if name in self.model_fields_set]:
                raise ValueError(f"{', '.join(given)}: only for mode history")
            return self
        if self.window_column is not None:
            raise ValueError(
                "window_column: not allowed for mode history, whose rows belong to the window of "
                "their valid_from; sequence_by names the column with the time of a change"
            )
        if self.snapshot and self.sequence_by:
            raise ValueError(
                "sequence_by: not allowed for a snapshot, whose versions begin with its window"
            )
        self._check_names()
        return self

    def _check_names(self) -> None:
        own = [self.valid_from.lower(), self.valid_to.lower()]
        if own[0] == own[1]:
            raise ValueError("valid_from and valid_to must be two columns")
        keys = [name.lower() for name in self.key]
        for name in self.track:
            if name.lower() in (*keys, *own, (self.sequence_by or "").lower()):
                raise ValueError(
                    f"track: {name} must not be a column of the key, sequence_by, valid_from or "
                    "valid_to"
                )
        for name in (*self.key, *filter(None, [self.sequence_by])):
            if name.lower() in own:
                raise ValueError(
                    f"{name} is the name of a column that mode history adds; choose other names "
                    "for these with valid_from and valid_to"
                )

    @property
    def added_columns(self) -> Mapping[str, str]:
        if not self.write_mode.keeps_history:
            return {}
        return {self.valid_from: "TIMESTAMP", self.valid_to: "TIMESTAMP"}
