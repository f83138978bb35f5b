"""A dbt project's `target/manifest.json`: its nodes, sources and the dependencies between them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logdriven_dagster.errors import UsageError

_VERSION = re.compile(r"/manifest/v(\d+)\.json$")
_SUPPORTED = range(10, 13)
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("columns", "column_types", "config", "contract", "depends_on"), dict),
    **dict.fromkeys(("external", "freshness", "kwargs", "meta", "test_metadata"), dict),
    "nodes": list,
    **dict.fromkeys(("name", "original_file_path", "raw_code", "source_name"), str),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A model, seed, snapshot, test or source."""

    id: str
    values: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Resource type: model, seed, snapshot, test, source and others."""
        return str(self.values.get("resource_type", ""))

    @property
    def name(self) -> str:
        return str(self.values["name"])

    @property
    def config(self) -> Mapping[str, Any]:
        return self.values.get("config") or {}

    @property
    def materialized(self) -> str:
        return str(self.config.get("materialized", ""))

    @property
    def is_ephemeral(self) -> bool:
        return self.kind == "model" and self.materialized == "ephemeral"

    @property
    def path(self) -> str:
        """Path of its file in the dbt project."""
        return str(self.values.get("original_file_path", "")).replace("\\", "/")

    @property
    def upstream(self) -> tuple[str, ...]:
        """Identifiers of the nodes that it reads."""
        return tuple((self.values.get("depends_on") or {}).get("nodes") or ())

    @property
    def event_time(self) -> str | None:
        """Column by which a microbatch model that reads this node filters its rows."""
        return self.config.get("event_time") or self.values.get("event_time")

    @property
    def relation(self) -> str:
        """Name of its relation in the warehouse, without quotes."""
        identifier = self.values.get("identifier") or self.values.get("alias") or self.name
        parts = (self.values.get("database"), self.values.get("schema"), identifier)
        return ".".join(str(part) for part in parts if part)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest."""

    path: Path
    adapter: str
    nodes: Mapping[str, Node]
    """Nodes and sources by identifier."""
    others: Sequence[tuple[str, str, str]]
    """Kind, name and file of each item of a kind that is never translated."""
    groups: Mapping[str, Any]

    @property
    def project(self) -> Path:
        """Folder of the dbt project, if the manifest lies in its `target`."""
        return self.path.resolve().parent.parent

    def of_kind(self, *kinds: str) -> Iterator[Node]:
        """Yield the nodes of these resource types, in the order of their identifiers."""
        return (node for _, node in sorted(self.nodes.items()) if node.kind in kinds)

    def list_upstream(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that a node reads; those that the manifest lacks are left out."""
        return tuple(self.nodes[name] for name in node.upstream if name in self.nodes)

    def find_ancestors(self, node: Node) -> set[str]:
        """Return the identifiers of all nodes that a node reads, directly or not."""
        found: set[str] = set()
        waiting = list(node.upstream)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.nodes:
                found.add(name)
                waiting += self.nodes[name].upstream
        return found


def _check_types(node: Node) -> None:
    """Raise KeyError or TypeError for a node without the fields that every manifest has."""
    _ = node.values["name"], node.values["resource_type"]
    if node.kind == "source":
        _ = node.values["source_name"]
    places = {node.id: node.values}
    for name in ("config", "depends_on", "test_metadata"):
        places[f"{node.id}: {name}"] = node.values.get(name) or {}
    for place, values in places.items():
        for name, kind in _TYPES.items():
            value = values.get(name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{place}: {name} is not of the type {kind.__name__}")


def read_manifest(path: Path) -> Manifest:
    """Return the content of a manifest. Raises UsageError for other files and other versions."""
    if path.is_dir():
        path = path / "target" / "manifest.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema = str(content["metadata"]["dbt_schema_version"])
        adapter = str(content["metadata"].get("adapter_type") or "")
        found = {**content["nodes"], **content["sources"]}
        nodes = {name: Node(name, values) for name, values in found.items()}
        for node in nodes.values():
            _check_types(node)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; `dbt parse` writes it") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        problem = f"{path} is not a manifest of dbt: {type(error).__name__}: {error}"
        raise UsageError(f"{problem}; `dbt parse` writes target/manifest.json") from None
    version = _VERSION.search(schema)
    if version is None or int(version[1]) not in _SUPPORTED:
        raise UsageError(
            f"{path} has the schema {schema}; supported are v10 to v12, which dbt 1.6 to 1.11 write"
        )
    kinds = ("exposures", "metrics", "semantic_models", "saved_queries", "unit_tests", "functions")
    others = [
        (kind, str(each.get("name") or name), str(each.get("original_file_path") or path.name))
        for kind in kinds
        for name, each in sorted((content.get(kind) or {}).items())
    ]
    return Manifest(path, adapter, nodes, others, content.get("groups") or {})
