"""Definitions as the registry knows them: declared content, codes, versions, differences.

Source: DolphinScheduler, workflow definition split.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


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


@dataclass(frozen=True, slots=True)
class Use:
    """Something that a step uses."""

    code: str
    """Of the table, or of the step of a maintenance job."""
    kind: str
    """connection, source, target, file, topic or upstream."""
    used: str
    step_id: str


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from the tables and jobs of a project."""

    definitions: Sequence[Declared]
    """Relations, and steps of maintenance jobs."""
    uses: Sequence[Use]
    properties: Sequence[Mapping[str, str]]
    """Rows of `table_property`: code, config_group, name, value."""


@dataclass(frozen=True, slots=True)
class Change:
    """A version that was written, or would be."""

    kind: Kind
    name: str
    code: str
    operation: Operation
    version: int
    """The new one."""
    before: str | None = None
    """The content of the version before, canonical JSON; None for what is new."""
    after: str | None = None
    """None for what is deleted."""

    def differences(self) -> "Iterator[Difference]":
        """Field by field."""
        return differences(_parsed(self.before), _parsed(self.after))


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of two versions; None where a version does not have it."""

    path: str
    before: Any
    after: Any


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
    columns: Mapping[str, Any]


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
        yield from differences(_by_name(before), _by_name(after), path)
    elif before != after:
        yield Difference(path, before, after)


def _by_name(items: list[Any]) -> dict[str, Any]:
    return {_name(item, n): item for n, item in enumerate(items)}


def _name(item: Any, place: int) -> str:
    if isinstance(item, dict):
        for field_name in ("step", "table", "check", "to"):
            if isinstance(item.get(field_name), str):
                return str(item[field_name])
    return str(place)


def _parsed(content: str | None) -> Any:
    return {} if content is None else json.loads(content)
