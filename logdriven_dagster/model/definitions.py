"""Definitions in the registry: declared content, codes, versions, differences.

Source: DolphinScheduler, workflow definition split.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(str, Enum):
    """Kind of a definition; the prefix of its codes."""

    PROJECT = "PROJECT"
    TABLE = "TABLE"
    RELATION = "RELATION"
    JOB = "JOB"
    STEP = "STEP"


class Operation(str, Enum):
    """Operation that created a version. Source: DolphinScheduler, operation type."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


def build_code(project: str, kind: Kind, name: str) -> str:
    """Return the code of a definition, equal in every run log, before and after an import.

    It is derived from the names; the versions of a renamed definition get the new code.
    """
    named = "\0".join((project, name) if kind is not Kind.PROJECT else (project,))
    return f"{kind.value}_{hashlib.sha256(named.encode()).hexdigest()[:20]}"


def serialize_canonical(content: Mapping[str, Any]) -> str:
    """Serialize content as canonical JSON: equal content gives equal text."""
    try:
        return _format_json(content)
    except TypeError:  # YAML keys may mix numbers and texts, which cannot be sorted
        return _format_json(_convert_keys(content))


def _format_json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _convert_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _convert_keys(part) for key, part in value.items()}
    return [_convert_keys(part) for part in value] if isinstance(value, list) else value


def compute_digest(content: str) -> str:
    """Return the SHA-256 of a canonical content."""
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Declared:
    """One definition as declared in files, or derived from a table or job."""

    kind: Kind
    name: str
    """Unique within its kind and project."""
    content: str
    """Canonical JSON."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of its row, for queries in SQL."""
    former: str | None = None
    """The content with the former names of renamed fields; None if it is the same."""

    @property
    def digest(self) -> str:
        return compute_digest(self.content)

    def has_digest(self, digest: str | None) -> bool:
        """Return True if a digest is that of this content, written with any names of its fields."""
        if digest == self.digest:
            return True
        return self.former is not None and digest == compute_digest(self.former)


USED_LENGTH = 512
"""Maximum length of the name of a used resource; paths may be longer."""


@dataclass(frozen=True, slots=True)
class Use:
    """A connection, file or table that a step uses."""

    code: str
    """Code of the table, the job, or the step of a maintenance job."""
    kind: str
    """One of connection, source, target, file, topic, upstream and table."""
    used: str
    step_id: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows derived from the tables and jobs of a project."""

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
    """The new version."""
    before: str | None = None
    """Content of the previous version with the settings in force; None for a new definition."""
    after: str | None = None
    """New content, or None for a deleted definition."""

    def differences(self) -> list[Difference]:
        """Return the differences by field; empty for a new or deleted definition."""
        if self.before is None or self.after is None:
            return []
        return list_content_differences(json.loads(self.before), json.loads(self.after))


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
    """Columns of its kind, including settings."""

    @property
    def in_force(self) -> dict[str, Any]:
        """The content with the settings that were in force."""
        return get_content_in_force(self.content, self.columns)


def get_content_in_force(content: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with settings replaced by those of its row, which operators may change."""
    parsed: dict[str, Any] = json.loads(content)
    if "settings" in parsed:
        parsed["settings"] = {
            name: columns.get(name, declared) for name, declared in parsed["settings"].items()
        }
    return parsed


def list_content_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[Difference]:
    """Return the differences of two contents, by the paths of fields and of captured files.

    A setting is listed once, with the value in force; its value in the file is listed only if
    nothing else differs.
    """
    settings = {
        item.path
        for item in list_differences(before.get("settings", {}), after.get("settings", {}))
    }
    found = []
    for part in ("settings", "values", "files"):
        for item in list_differences(before.get(part, {}), after.get(part, {})):
            path = item.path
            if part == "values" and path in after.get("settings", {}):
                if path in settings:
                    continue
                path = f"{path} in the file"
            found.append(Difference(path, item.before, item.after))
    return found


def list_differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Yield the fields in which two JSON values differ, by path, sorted by name.

    `path` is the prefix of all paths. List items are matched by the name they give themselves
    (`step`, `table`, `check`), otherwise by position.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}, key=str):
            inner = f"{path}.{name}" if path else str(name)
            yield from list_differences(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list):
        one, other = _list_names(before), _list_names(after)
        if one is None or other is None:
            one, other = list(map(str, range(len(before)))), list(map(str, range(len(after))))
        if one != other and sorted(one) == sorted(other):
            yield Difference(f"{path} in order", one, other)
        items = dict(zip(one, before, strict=True)), dict(zip(other, after, strict=True))
        yield from list_differences(*items, path)
    elif before != after:
        yield Difference(path, before, after)


def _list_names(items: Iterable[Any]) -> list[str] | None:
    """Return the names of a list's items, or None unless each has a unique name."""
    names = [_get_name(item) for item in items]
    given = [name for name in names if name is not None]
    return given if len(given) == len(names) == len(set(given)) else None


def _get_name(item: Any) -> str | None:
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
    """Machine on which it was recorded."""
    folder: str
    """The project folder on that machine."""
    place: str | None
    """Location or name of the target; None if unknown."""

    def continues(self, recorded: "Home") -> bool:
        """Return True if windows of the recorded home are windows of this one.

        A project may run on several machines, if its rows are in one place. On the same machine and
        in the same folder, a table in another place has a changed target, which `changed_targets`
        reports.
        """
        in_place = None in (self.place, recorded.place) or self.place == recorded.place
        return in_place or (self.host, self.folder) == (recorded.host, recorded.folder)

    def adds_to(self, recorded: "Home | None") -> bool:
        """Return True if this home, which continues the recorded one, has new information."""
        return recorded is None or (self.place is not None and self.place != recorded.place)
