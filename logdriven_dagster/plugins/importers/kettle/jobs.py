"""Jobs of Kettle in `.kjb` files: entries, and the hops between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.hops import read_text
from logdriven_dagster.plugins.importers.kettle.ktr import Database, parse_file, read_databases

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Outcome: TypeAlias = Literal["success", "failure", "always"]

SILENT = frozenset({"SPECIAL", "SUCCESS", "DUMMY", "WRITE_TO_LOG"})
"""Types of entries that only start, end or log."""

_DIRECTORIES = ("${Internal.Entry.Current.Directory}", "${Internal.Job.Filename.Directory}")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a job."""

    name: str
    kind: str
    element: "Element"

    def find_file(self, job: Path) -> Path:
        """Return the file of a TRANS or JOB entry, relative to its job.

        Raises UntranslatableError for arguments, rows of earlier entries, and other variables.
        """
        for flag in ("arg_from_previous", "params_from_previous", "exec_per_row"):
            if read_text(self.element, flag).upper() == "Y":
                raise UntranslatableError(f"{self.name}: {flag} is set")
        given = [read_text(each, "value") for each in self.element.iterfind("parameters/parameter")]
        if any(given):
            raise UntranslatableError(f"{self.name}: it passes parameters; write their values")
        text = read_text(self.element, "filename").replace("\\", "/")
        if not text:
            raise UntranslatableError(f"{self.name}: it names no file, but one of a repository")
        for directory in _DIRECTORIES:
            text = text.replace(directory, str(job.parent))
        if "${" in text or "%%" in text:
            raise UntranslatableError(f"{self.name}: {text} contains a variable; write the path")
        file = Path(text.removeprefix("file://"))
        suffix = ".ktr" if self.kind == "TRANS" else ".kjb"
        file = file if file.suffix else file.with_suffix(suffix)
        # Files that were moved together are found next to the job.
        return file if file.is_file() else job.parent / file.name


@dataclass(frozen=True, slots=True)
class Hop:
    """A hop between two entries, and the outcome of the first one that it follows."""

    start: str
    end: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class KettleJob:
    """A job: the entries that its start reaches, and the hops between them."""

    path: Path
    name: str
    description: str
    entries: Mapping[str, Entry]
    hops: Sequence[Hop]
    databases: tuple[Database, ...]

    @property
    def start(self) -> Entry:
        """The entry with which the job starts."""
        return next(
            each for each in self.entries.values() if read_text(each.element, "start") == "Y"
        )

    def list_hops_from(self, name: str) -> list[Hop]:
        """Return the hops from an entry, in the order of the file."""
        return [hop for hop in self.hops if hop.start == name]


def read_job(path: Path) -> KettleJob:
    """Read a job. Raises UntranslatableError for a file that is none, and for loops."""
    root = parse_file(path, "job")
    every = {
        read_text(each, "name"): Entry(read_text(each, "name"), read_text(each, "type"), each)
        for each in root.iterfind("entries/entry")
    }
    hops = [
        Hop(read_text(each, "from"), read_text(each, "to"), _outcome(each))
        for each in root.iterfind("hops/hop")
        if read_text(each, "enabled").upper() != "N"
    ]
    starts = [name for name, each in every.items() if read_text(each.element, "start") == "Y"]
    if len(starts) != 1:
        raise UntranslatableError(f"it has {len(starts)} entries that start it; it must have one")
    reached: dict[str, None] = {}
    waiting = starts
    while waiting:
        name = waiting.pop(0)
        if name not in reached and name in every:
            reached[name] = None
            waiting += [hop.end for hop in hops if hop.start == name]
    return KettleJob(
        path,
        read_text(root, "name") or path.stem,
        read_text(root, "description"),
        {name: every[name] for name in reached},
        [hop for hop in hops if hop.start in reached and hop.end in reached],
        read_databases(root),
    )


def _outcome(hop: "Element") -> Outcome:
    if read_text(hop, "unconditional").upper() == "Y":
        return "always"
    return "success" if read_text(hop, "evaluation").upper() == "Y" else "failure"
