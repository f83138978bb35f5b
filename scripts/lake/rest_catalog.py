"""An Iceberg REST catalog over PyIceberg's own SQL catalog, hard about what a commit requires.

`python -m scripts.lake.rest_catalog sqlite:////some/catalog.db --warehouse s3://lake/tables` serves
it. Requests and responses are PyIceberg's own models. A client comes with a bearer token, which it
may fetch by OAuth's client credentials. `scripts/lake/serving.py` says how the server is told to
fail: `lost` and `late-500` of `CommitTable` are commits that are done and whose answer never comes.
"""

import argparse
import json
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from pydantic import ValidationError
from pyiceberg import exceptions as iceberg
from pyiceberg.catalog.rest import (
    CreateTableRequest,
    ListNamespaceResponse,
    ListTableResponseEntry,
    ListTablesResponse,
    NamespaceResponse,
    RegisterTableRequest,
    TableResponse,
)
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertCreate
from pyiceberg.typedef import Identifier
from sqlalchemy.exc import IntegrityError

from scripts.lake.serving import Answer, Request, Server, serve, serving

CREDENTIAL = "lake-client:lake-client-secret"
PREFIX = "lake"
"""Stands in the paths of all tables, as clouds that serve several catalogs have it."""

_NAMESPACE = r"namespaces/(?P<namespace>[^/]+)"
_ROUTES: tuple[tuple[str, str, str], ...] = (
    ("GET", r"config", "GetConfig"),
    ("POST", r"oauth/tokens", "GetToken"),
    ("GET", rf"{PREFIX}/namespaces", "ListNamespaces"),
    ("POST", rf"{PREFIX}/namespaces", "CreateNamespace"),
    ("GET", rf"{PREFIX}/{_NAMESPACE}", "LoadNamespace"),
    ("HEAD", rf"{PREFIX}/{_NAMESPACE}", "LoadNamespace"),
    ("DELETE", rf"{PREFIX}/{_NAMESPACE}", "DropNamespace"),
    ("GET", rf"{PREFIX}/{_NAMESPACE}/tables", "ListTables"),
    ("POST", rf"{PREFIX}/{_NAMESPACE}/tables", "CreateTable"),
    ("POST", rf"{PREFIX}/{_NAMESPACE}/register", "RegisterTable"),
    ("GET", rf"{PREFIX}/{_NAMESPACE}/tables/(?P<table>[^/]+)", "LoadTable"),
    ("HEAD", rf"{PREFIX}/{_NAMESPACE}/tables/(?P<table>[^/]+)", "TableExists"),
    ("POST", rf"{PREFIX}/{_NAMESPACE}/tables/(?P<table>[^/]+)", "CommitTable"),
    ("DELETE", rf"{PREFIX}/{_NAMESPACE}/tables/(?P<table>[^/]+)", "DropTable"),
    ("POST", rf"{PREFIX}/tables/rename", "RenameTable"),
)
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (iceberg.NoSuchTableError, 404),
    (iceberg.NoSuchNamespaceError, 404),
    (iceberg.TableAlreadyExistsError, 409),
    (iceberg.NamespaceAlreadyExistsError, 409),
    (iceberg.NamespaceNotEmptyError, 409),
    (iceberg.CommitFailedException, 409),
    (ValidationError, 400),
    (ValueError, 400),
)


@dataclass(frozen=True)
class _Named:
    """All that a commit of PyIceberg asks of the table that it is given."""

    identifier: Identifier

    def name(self) -> Identifier:
        return self.identifier


@dataclass
class RestCatalogService:
    """What a REST catalog answers; `vended` are the keys to its storage that it hands out."""

    catalog: SqlCatalog
    credential: str = CREDENTIAL
    vended: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)

    def operation(self, request: Request) -> str:
        return _route(request)[0]

    def answer(self, operation: str, request: Request) -> Answer:
        _, named = _route(request)
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        if operation == "GetToken":
            return self._token(request)
        if token not in self.tokens:
            return _error(401, "NotAuthorizedException", "The token is unknown or has expired")
        try:
            work: Callable[[Request, dict[str, str]], Answer] = getattr(self, _method(operation))
            return work(request, named)
        except Exception as error:  # noqa: BLE001 - a server answers whatever goes wrong
            kinds = (status for kind, status in _STATUSES if isinstance(error, kind))
            return _error(next(kinds, 500), type(error).__name__, str(error))

    def failure(self, status: int) -> Answer:
        """What a fault answers."""
        return _error(status, HTTPStatus(status).phrase, "the server was told to fail")

    def _token(self, request: Request) -> Answer:
        asked = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        given = f"{asked.get('client_id')}:{asked.get('client_secret')}"
        if asked.get("grant_type") != "client_credentials" or given != self.credential:
            return _json({"error": "invalid_client", "error_description": "unknown client"}, 401)
        token = secrets.token_urlsafe()
        self.tokens.add(token)
        return _json({"access_token": token, "token_type": "bearer", "expires_in": 3600})

    def _get_config(self, _: Request, __: dict[str, str]) -> Answer:
        paths = [(method, _shown(path)) for method, path, _ in _ROUTES if path.startswith(PREFIX)]
        return _json(
            {
                "defaults": dict(self.defaults),
                "overrides": {"prefix": PREFIX, **self.overrides},
                "endpoints": [f"{method} /v1/{path}" for method, path in paths],
            }
        )

    def _list_namespaces(self, request: Request, _: dict[str, str]) -> Answer:
        parent = request.query.get("parent")
        found = self.catalog.list_namespaces(_split(parent) if parent else ())
        return _model(ListNamespaceResponse(namespaces=found))

    def _create_namespace(self, request: Request, _: dict[str, str]) -> Answer:
        asked = NamespaceResponse.model_validate_json(request.body)
        try:
            self.catalog.create_namespace(asked.namespace, asked.properties)
        except IntegrityError:  # another one made it in between
            raise iceberg.NamespaceAlreadyExistsError(".".join(asked.namespace)) from None
        return _model(asked)

    def _load_namespace(self, _: Request, named: dict[str, str]) -> Answer:
        namespace = _split(named["namespace"])
        if not self.catalog.namespace_exists(namespace):
            raise iceberg.NoSuchNamespaceError(".".join(namespace))
        properties = self.catalog.load_namespace_properties(namespace)
        return _model(NamespaceResponse(namespace=namespace, properties=properties))

    def _drop_namespace(self, _: Request, named: dict[str, str]) -> Answer:
        self.catalog.drop_namespace(_split(named["namespace"]))
        return Answer(204)

    def _list_tables(self, _: Request, named: dict[str, str]) -> Answer:
        found = self.catalog.list_tables(_split(named["namespace"]))
        entries = [ListTableResponseEntry(name=each[-1], namespace=each[:-1]) for each in found]
        return _model(ListTablesResponse(identifiers=entries))

    def _create_table(self, request: Request, named: dict[str, str]) -> Answer:
        # What is None is not sent, and the model has no default for it.
        missing = {"location": None, "partition-spec": None, "write-order": None}
        asked = CreateTableRequest.model_validate(missing | json.loads(request.body))
        identifier = (*_split(named["namespace"]), asked.name)
        wanted: dict[str, Any] = {
            "location": asked.location,
            "partition_spec": asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            "sort_order": asked.write_order or UNSORTED_SORT_ORDER,
            "properties": asked.properties,
        }
        if not asked.stage_create:
            table = self.catalog.create_table(identifier, asked.table_schema, **wanted)
            return self._loaded(table, request)
        if self.catalog.table_exists(identifier):
            raise iceberg.TableAlreadyExistsError(".".join(identifier))
        staged = self.catalog.create_table_transaction(identifier, asked.table_schema, **wanted)
        return _model(
            TableResponse(metadata=staged.table_metadata, config=self._config_of_tables(request))
        )

    def _register_table(self, request: Request, named: dict[str, str]) -> Answer:
        asked = RegisterTableRequest.model_validate_json(request.body)
        identifier = (*_split(named["namespace"]), asked.name)
        table = self.catalog.register_table(identifier, asked.metadata_location)
        return self._loaded(table, request)

    def _load_table(self, request: Request, named: dict[str, str]) -> Answer:
        return self._loaded(self.catalog.load_table(_identifier(named)), request)

    def _table_exists(self, _: Request, named: dict[str, str]) -> Answer:
        return Answer(204 if self.catalog.table_exists(_identifier(named)) else 404)

    def _commit_table(self, request: Request, named: dict[str, str]) -> Answer:
        asked = CommitTableRequest.model_validate_json(request.body)
        identifier = _identifier(named)
        creates = any(isinstance(each, AssertCreate) for each in asked.requirements)
        if not creates and not self.catalog.table_exists(identifier):
            raise iceberg.NoSuchTableError(".".join(identifier))
        table: Any = _Named(identifier)
        return _model(self.catalog.commit_table(table, asked.requirements, asked.updates))

    def _drop_table(self, request: Request, named: dict[str, str]) -> Answer:
        purges = request.query.get("purgeRequested", "").lower() == "true"
        drop = self.catalog.purge_table if purges else self.catalog.drop_table
        drop(_identifier(named))
        return Answer(204)

    def _rename_table(self, request: Request, _: dict[str, str]) -> Answer:
        asked = json.loads(request.body)
        old, new = (
            (*each["namespace"], each["name"]) for each in (asked["source"], asked["destination"])
        )
        self.catalog.rename_table(old, new)
        return Answer(204)

    def _loaded(self, table: Table, request: Request) -> Answer:
        return _model(
            TableResponse(
                metadata_location=table.metadata_location,
                metadata=table.metadata,
                config=self._config_of_tables(request),
            )
        )

    def _config_of_tables(self, request: Request) -> dict[str, str]:
        wanted = request.headers.get("X-Iceberg-Access-Delegation") or ""
        return dict(self.vended) if "vended-credentials" in wanted else {}


def _route(request: Request) -> tuple[str, dict[str, str]]:
    for method, pattern, operation in _ROUTES:
        found = re.fullmatch(f"/v1/{pattern}", request.raw_path)
        if found and request.method == method:
            return operation, found.groupdict()
    return "Unknown", {}


def _method(operation: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", operation).lower()


def _shown(pattern: str) -> str:
    """The template of a path, as clients compare it."""
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", pattern).replace(PREFIX, "{prefix}", 1)


def _split(namespace: str) -> Identifier:
    return tuple(unquote(namespace).split("\x1f"))


def _identifier(named: dict[str, str]) -> Identifier:
    return (*_split(named["namespace"]), unquote(named["table"]))


def _model(model: Any) -> Answer:
    return Answer(200, model.model_dump_json().encode(), {"Content-Type": "application/json"})


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _error(status: int, kind: str, message: str) -> Answer:
    return _json({"error": {"message": message, "type": kind, "code": status}}, status)


def start(
    uri: str,
    warehouse: str,
    storage: Mapping[str, str] | None = None,
    port: int = 0,
    **options: Any,
) -> AbstractContextManager[Server]:
    """Serve a catalog in a thread of this process while the context is open."""
    return serving(_service(uri, warehouse, storage or {}, **options), port=port)


def _service(
    uri: str, warehouse: str, storage: Mapping[str, str], **options: Any
) -> RestCatalogService:
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse, **storage)
    return RestCatalogService(catalog, **options)


def properties(uri: str) -> dict[str, str]:
    """The `catalog:` block of a project that uses the server."""
    tokens = f"{uri}/v1/oauth/tokens"
    return {"type": "rest", "uri": uri, "credential": CREDENTIAL, "oauth2-server-uri": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description="An Iceberg REST catalog over an SQL database")
    parser.add_argument("database", help="an SQLAlchemy URL; holds where each table stands")
    parser.add_argument("--warehouse", required=True, help="where new tables lie")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8181)
    parser.add_argument("--storage", action="append", default=[], metavar="PROPERTY=VALUE")
    parser.add_argument("--vend", action="append", default=[], metavar="PROPERTY=VALUE")
    options = parser.parse_args()
    storage, vended = (
        dict(p.split("=", 1) for p in each) for each in (options.storage, options.vend)
    )
    service = _service(options.database, options.warehouse, storage, vended=vended)
    serve(service, options.host, options.port)


if __name__ == "__main__":
    main()
