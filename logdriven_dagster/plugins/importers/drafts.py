"""Result of an importer: drafts of a project's files, and remarks for the user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

Values: TypeAlias = dict[str, Any]
"""Fields of a file, in the order in which they are written."""


_KEPT_BY_STUBS = frozenset(
    {"table", "description", "tags", "enabled", "incremental_type", "period", "default_start"}
    | {"timeout", "depends_on", "notify"}
)


class UntranslatableError(ValueError):
    """A construct without a counterpart; the message describes it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A part of the original that the user must review."""

    place: str
    """Location such as `orders.sql:12`, `t_etl_std_ktr_cfg, cfg_id 3`, `public.orders.amount`."""
    item: str
    """Original text: a header, a row, a column's type."""
    reason: str


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A file to be written below the project folder."""

    path: PurePosixPath
    values: Values
    origin: str
    """Origin of the file, for the comment in its first line."""
    comments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Comments above fields; `steps.load` is the step `load`."""
    files: Mapping[PurePosixPath, str] = field(default_factory=dict)
    """Texts of further files below the project folder, which the steps use."""

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
        """Return the table with a single step that fails with `reason`, and without a schedule."""
        kept = {name: value for name, value in self.values.items() if name in _KEPT_BY_STUBS}
        step = {"step": "load", "sql": stub_query(reason), "target": {"type": "iceberg"}}
        values = {**kept, "release_state": "offline", "steps": [step]}
        return DraftFile(self.path, values, self.origin, {"steps.load": [f"TODO: {reason}"]})


@dataclass(slots=True)
class Translation:
    """All drafts of an import, with untranslated and uncertain parts."""

    drafts: list[DraftFile] = field(default_factory=list)
    untranslated: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Table name of each name in the source system, for reading its log."""

    def leave(self, place: str, item: str, reason: str) -> None:
        """Record a part that was not translated: its location, its text and the reason."""
        self.untranslated.append(Remark(place, item, reason))

    def note(self, place: str, item: str, reason: str) -> None:
        """Record a translated part whose meaning may have changed: location, text and reason."""
        self.notes.append(Remark(place, item, reason))


def table_path(name: str) -> PurePosixPath:
    """Return the path of a table's file: `ods.shop.orders` → `tables/ods/shop/orders.yaml`."""
    return PurePosixPath("tables", *name.split(".")).with_suffix(".yaml")


def job_path(name: str) -> PurePosixPath:
    """Return the path of a job's file: `nightly` → `jobs/nightly.yaml`."""
    return PurePosixPath("jobs", f"{name}.yaml")


def stub_query(reason: str) -> str:
    """Return a Spark query for an untranslated part, which fails with the reason.

    Columns of a table function are not known without Spark, so that queries that read the table
    stay valid with any columns.
    """
    text = reason.replace("\\", "/").replace("'", "’").replace("${", "$ {")
    return (  # the text is quoted, and a person reads the draft
        f"SELECT * FROM (SELECT CAST(\n  raise_error('not translated: {text}')\n"  # noqa: S608
        "AS STRING) AS not_translated FROM range(1))\n"
    )
