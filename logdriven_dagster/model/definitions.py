"""Definitions as the registry knows them: declared content, codes, versions, differences.

Source: DolphinScheduler, workflow definition split.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(str, Enum):
    """What is defined; the beginning of its codes."""

    PROJECT = "PROJECT"
    TABLE = "TABLE"
    RELATION = "RELATION"
    JOB = "JOB"
    STEP = "STEP"


class Operation(str, Enum):
    """What a version did. Source: DolphinScheduler, operation type."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


def code_of(project: str, kind: Kind, name: str) -> str:
    """The code of a definition: the same in every run log, before and after an import.

    It follows from the names, since a table of another name is another table.
    """
    named = "\0".join((project, name) if kind is not Kind.PROJECT else (project,))
    return f"{kind.value}_{hashlib.sha256(named.encode()).hexdigest()[:20]}"


def canonical(content: Mapping[str, Any]) -> str:
    """The content as JSON text that is the same for the same content."""
    try:
        return _json(content)
    except TypeError:  # YAML's keys may be numbers and texts at once, which have no order
        return _json(_with_text_keys(content))


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(part) for key, part in value.items()}
    return [_with_text_keys(part) for part in value] if isinstance(value, list) else value


def digest_of(content: str) -> str:
    """SHA-256 of a canonical content."""
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Declared:
    """One definition as files declare it, or as it follows from those of tables and jobs."""

    kind: Kind
    name: str
    """Unique within its kind and project."""
    content: str
    """Canonical JSON."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What its row holds beside the content, so that SQL can ask for it."""

    @property
    def digest(self) -> str:
        return digest_of(self.content)


USED_LENGTH = 512
"""How many letters of a used name are kept; paths may be longer."""


@dataclass(frozen=True, slots=True)
class Use:
    """A connection, file or table that a step uses."""

    code: str
    """The code of the table, the job, or the step of a maintenance job."""
    kind: str
    """connection, source, target, file, topic, upstream or table."""
    used: str
    step_id: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows that follow from the tables and jobs of a project."""

    definitions: Sequence[Declared]
    """Relations, and steps of maintenance jobs."""
    uses: Sequence[Use]
    properties: Sequence[Mapping[str, str]]
    """Rows of `table_property`: code, config_group, name, value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of two versions; None where a version does not have it."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version of a definition that was written, or would be by applying the files."""

    kind: Kind
    name: str
    code: str
    operation: Operation
    version: int
    """The new one."""
    before: str | None = None
    """The content of the version before, with the settings in force; None for what is new."""
    after: str | None = None
    """None for what is deleted."""

    def differences(self) -> list[Difference]:
        """Field by field; none for what is new or deleted."""
        if self.before is None or self.after is None:
            return []
        return content_differences(json.loads(self.before), json.loads(self.after))


@dataclass(frozen=True, slots=True)
class Version:
    """One row of a `*_definition_log`."""

    kind: Kind
    name: str
    code: str
    version: int
    operation: Operation
    operator: str
    time: str
    """ISO 8601, UTC."""
    reason: str | None
    content: str
    file_digest: str | None
    columns: Mapping[str, Any]
    """The columns that its kind has, settings among them."""

    @property
    def in_force(self) -> dict[str, Any]:
        """The content with the settings that were in force."""
        return content_in_force(self.content, self.columns)


def content_in_force(content: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """A content whose settings are those of its row, which operators change."""
    parsed: dict[str, Any] = json.loads(content)
    if "settings" in parsed:
        parsed["settings"] = {
            name: columns.get(name, declared) for name, declared in parsed["settings"].items()
        }
    return parsed


def content_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """How two contents differ, by the paths of fields as files have them, and of captured files.

    A setting stands once, with what is in force; what a file says beside it only where that alone
    differs.
    """
    settings = {
        item.path for item in differences(before.get("settings", {}), after.get("settings", {}))
    }
    found = []
    for part in ("settings", "values", "files"):
        for item in differences(before.get(part, {}), after.get(part, {})):
            path = item.path
            if part == "values" and path in after.get("settings", {}):
                if path in settings:
                    continue
                path = f"{path} in the file"
            found.append(Difference(path, item.before, item.after))
    return found


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """The fields in which two JSON values differ, by their paths, in the order of names.

    Items of lists go by the name that they give themselves (`step`, `table`, `check`), else by
    their place.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}, key=str):
            inner = f"{path}.{name}" if path else str(name)
            yield from differences(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list):
        one, other = _names(before), _names(after)
        if one is None or other is None:
            one, other = list(map(str, range(len(before)))), list(map(str, range(len(after))))
        if one != other and sorted(one) == sorted(other):
            yield Difference(f"{path} in order", one, other)
        items = dict(zip(one, before, strict=True)), dict(zip(other, after, strict=True))
        yield from differences(*items, path)
    elif before != after:
        yield Difference(path, before, after)


def _names(items: Iterable[Any]) -> list[str] | None:
    """The names that the items of a list give themselves, if each has its own."""
    names = [_name(item) for item in items]
    given = [name for name in names if name is not None]
    return given if len(given) == len(names) == len(set(given)) else None


def _name(item: Any) -> str | None:
    for field_name in ("step", "table", "check", "to"):
        if isinstance(item, dict) and isinstance(item.get(field_name), str):
            return str(item[field_name])
    return None


@dataclass(frozen=True, slots=True)
class Home:
    """The home of a table of a project."""

    name: str
    """The table."""
    host: str
    """The machine on which it was recorded."""
    folder: str
    """The project folder on that machine."""
    place: str | None
    """The location or the name of the target; None where it is not known."""

    def continues(self, recorded: "Home") -> bool:
        """Whether windows of the recorded home are windows of this one.

        One project may run on many machines, if its rows are in one place. Where machine and folder
        are the same, a table in another place has got another target, which `changed_targets`
        reports.
        """
        in_place = None in (self.place, recorded.place) or self.place == recorded.place
        return in_place or (self.host, self.folder) == (recorded.host, recorded.folder)

    def adds_to(self, recorded: "Home | None") -> bool:
        """Whether a home that continues the recorded one says more or something else."""
        return recorded is None or (self.place is not None and self.place != recorded.place)
