"""What an importer hands over: drafts of a project's files, and remarks for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

Values: TypeAlias = dict[str, Any]
"""The fields of a file, in the order in which they are written."""


_KEPT_BY_STUBS = frozenset(
    {"table", "description", "tags", "enabled", "incremental_type", "period", "default_start"}
    | {"timeout", "depends_on", "notify"}
)


class UntranslatableError(ValueError):
    """What was found has no counterpart here; the text says what it does."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something in the original that people must look at themselves."""

    place: str
    """`orders.sql:12`, `t_etl_std_ktr_cfg, cfg_id 3`, `public.orders.amount`."""
    item: str
    """What stands there: a header, a row, a column's type."""
    reason: str


@dataclass(frozen=True, slots=True)
class DraftFile:
    """One file that is to be written below the project folder."""

    path: PurePosixPath
    values: Values
    origin: str
    """Where it comes from; the comment in its first line."""
    comments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Field → comment above it; `steps.load` is the step `load`."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the file defines."""
        items = self.values.get("for_each")
        name = self.values.get("table")
        if name is None:
            return ()
        if items is None:
            return (str(name),)
        return tuple(str(name).replace("${each.name}", item["name"]) for item in items)

    def stub(self, reason: str) -> "DraftFile":
        """Return the table with a step that fails with the reason, which no schedule starts."""
        kept = {name: value for name, value in self.values.items() if name in _KEPT_BY_STUBS}
        step = {"step": "load", "sql": stub_query(reason), "target": {"type": "iceberg"}}
        values = {**kept, "release_state": "offline", "steps": [step]}
        return DraftFile(self.path, values, self.origin, {"steps.load": [f"TODO: {reason}"]})


@dataclass(slots=True)
class Translation:
    """All drafts of an import, what was not translated, and what was but wants a look."""

    drafts: list[DraftFile] = field(default_factory=list)
    untranslated: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Their name of a table → ours, by which their log is read."""

    def leave(self, place: str, item: str, reason: str) -> None:
        """List something that was not translated."""
        self.untranslated.append(Remark(place, item, reason))

    def note(self, place: str, item: str, reason: str) -> None:
        """List something that was translated and may mean something else now."""
        self.notes.append(Remark(place, item, reason))


def table_path(name: str) -> PurePosixPath:
    """`ods.shop.orders` → `tables/ods/shop/orders.yaml`."""
    return PurePosixPath("tables", *name.split(".")).with_suffix(".yaml")


def job_path(name: str) -> PurePosixPath:
    """`nightly` → `jobs/nightly.yaml`."""
    return PurePosixPath("jobs", f"{name}.yaml")


def stub_query(reason: str) -> str:
    """A Spark query for what was not translated: it fails with the reason, and writes nothing."""
    text = reason.replace("\\", "/").replace("'", "’").replace("${", "$ {")
    return f"SELECT CAST(\n  raise_error('not translated: {text}')\nAS STRING) AS not_translated\n"
