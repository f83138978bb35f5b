"""Files that a writer leaves in a folder, with the values that it says they hold.

The scripts of this folder run in an environment of their own, which has nothing of the project:
`python SCRIPT FOLDER [TOGETHER]`. TOGETHER is a JSON file: the names of the cases whose columns
share one file.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

Write = Callable[[str, "dict[str, Any]"], None]


@dataclass
class Case:
    """One type or feature of a writer, as a column of one file."""

    name: str
    column: Any
    """The column as `Format.write` takes it."""
    values: "Sequence[Any] | None" = None
    """The values in the file; None has `Format.read` tell them."""
    numbers: "Sequence[Any] | None" = None
    """The bare numbers or bytes, which a refusal may offer instead of the values."""
    declared: str = ""
    """The type that `columns` of the source names; formats of text need it."""


@dataclass
class Format:
    """Cases that one function writes, into one file or each into its own.

    Each file has three rows, whose numbers, 0 to 2, are in a column `n`.
    """

    form: str
    """The type of the source."""
    write: Write
    cases: "Sequence[Case]"
    read: "Callable[[str], Mapping[str, Sequence[Any]]] | None" = None
    """Reads a file with the writer's own reader."""
    source: "Mapping[str, Any]" = field(default_factory=dict)
    """More fields of the source."""


@dataclass
class Written:
    """A column in a file, as the loader takes it."""

    writer: str
    version: str
    form: str
    name: str
    path: str
    column: str
    values: "Sequence[Any]"
    are_texts: bool
    """Whether the values are texts for the writer, too."""
    numbers: "Sequence[Any] | None"
    declared: str
    source: "Mapping[str, Any]"

    @property
    def key(self) -> str:
        """The line of the table that it belongs to."""
        return f"{self.form}: {self.writer} {self.name}"


def canonical(value: Any) -> Any:
    """Return a value as JSON: equal values of any library have equal ones."""
    match value:
        case None | bool():
            return value
        case dict():
            return {str(canonical(key)): canonical(each) for key, each in value.items()}
        case list() | tuple():
            return [canonical(each) for each in value]
        case float():
            names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
            return names.get(str(value), repr(value))
        case bytes() | bytearray():
            return f"0x{bytes(value).hex()}"
        case Decimal():
            return format(value, "f")
    return _text_of_a_time(value)


def _text_of_a_time(value: Any) -> str:
    match value:
        case datetime():
            zone = "Z" if value.tzinfo else ""
            at = value.astimezone(timezone.utc) if zone else value
            return _cut(f"{at:%m-%d %H:%M:%S.%f}", f"{at.year:04}-") + zone
        case date():
            return f"{value.year:04}-{value:%m-%d}"
        case time():
            return _cut(f"{value:%H:%M:%S.%f}", "")
        case timedelta():
            return f"{value // timedelta(microseconds=1)} microseconds"
    return str(value)


def _cut(text: str, before: str) -> str:
    return before + text.rstrip("0").rstrip(".")


def write_all(writer: str, version: str, formats: Sequence[Format]) -> None:
    """Write the files of all formats, and `manifest.json` beside them."""
    folder = Path(sys.argv[1])
    together = set(json.loads(Path(sys.argv[2]).read_text())) if len(sys.argv) > 2 else set()
    found: list[Written] = []
    for number, form in enumerate(formats):
        shared, single = [], []
        for case in form.cases:
            key = f"{form.form}: {writer} {case.name}"
            (shared if key in together else single).append(case)
        groups = [[case] for case in single] + ([shared] if shared else [])
        for cases in groups:
            place = folder / f"t{number}_{len(found)}" / f"f.{form.form}"
            found += _written(writer, version, form, cases, place)
    (folder / "manifest.json").write_text(json.dumps([asdict(each) for each in found]))


def _written(
    writer: str, version: str, form: Format, cases: Sequence[Case], place: Path
) -> list[Written]:
    place.parent.mkdir(parents=True)
    names = ["v"] if len(cases) == 1 else [f"v{n}" for n in range(len(cases))]
    form.write(str(place), {name: case.column for name, case in zip(names, cases, strict=True)})
    read = form.read(str(place)) if form.read else {}
    found = []
    for name, case in zip(names, cases, strict=True):
        values = read[name] if case.values is None else case.values
        of = writer, version, form.form, case.name, str(place.parent), name, canonical(values)
        are_texts = all(isinstance(each, str | None) for each in values)
        numbers = None if case.numbers is None else canonical(case.numbers)
        found.append(Written(*of, are_texts, numbers, case.declared, form.source))
    return found
