"""The tests' REST catalog keeps its promises to PyIceberg's own client."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)

from scripts.lake import rest_catalog
from scripts.lake.faults import Fault

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


@pytest.fixture
def server(tmp_path):
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/tables"
    with rest_catalog.start(uri, warehouse, tokens={"static"}) as started:
        yield started


def client(server, **options):
    return load_catalog("any", **rest_catalog.properties(server.url) | options)


@pytest.fixture
def catalog(server):
    catalog = client(server)
    catalog.create_namespace("ods")
    return catalog


@pytest.fixture
def table(catalog):
    return catalog.create_table("ods.t", ROWS.schema)


def once(table):
    """Append without the retries of PyIceberg."""
    table.metadata.properties["commit.retry.num-retries"] = "0"
    table.append(ROWS)


def count(catalog) -> int:
    return len(catalog.load_table("ods.t").scan().to_arrow())


def test_tables_are_created_committed_listed_renamed_and_dropped(catalog, table):
    table.append(ROWS)
    assert catalog.load_table("ods.t").scan().to_arrow() == ROWS
    assert catalog.list_tables("ods") == [("ods", "t")]
    catalog.rename_table("ods.t", "ods.u")
    assert not catalog.table_exists("ods.t")
    catalog.drop_table("ods.u")
    assert catalog.list_tables("ods") == []


def test_a_table_is_created_with_its_first_rows(catalog):
    with catalog.create_table_transaction("ods.t", ROWS.schema) as creation:
        creation.append(ROWS)
        assert not catalog.table_exists("ods.t")
    assert count(catalog) == 2


def test_namespaces_of_several_levels_are_kept(catalog):
    catalog.create_namespace(("a", "b"), {"owner": "us"})
    assert catalog.namespace_exists(("a", "b"))
    assert catalog.load_namespace_properties(("a", "b"))["owner"] == "us"
    catalog.drop_namespace(("a", "b"))
    assert not catalog.namespace_exists(("a", "b"))


def test_what_is_not_there_is_not_found(catalog):
    with pytest.raises(NoSuchTableError):
        catalog.load_table("ods.nothing")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", ROWS.schema)
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("ods.nothing")


def test_what_is_there_is_not_made_again(catalog, table):
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("ods.t", ROWS.schema)
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("ods")


@pytest.mark.usefixtures("slow")
def test_a_namespace_that_several_make_at_once_is_there_for_all(server):
    clients = [client(server) for _ in range(8)]
    for name in ("a", "b", "c", "d", "e"):
        with ThreadPoolExecutor() as pool:
            list(pool.map(type(clients[0]).create_namespace_if_not_exists, clients, [name] * 8))
        assert clients[0].namespace_exists(name)


def test_a_stale_commit_is_refused(catalog, table):
    stale = catalog.load_table("ods.t")
    once(table)
    with pytest.raises(CommitFailedException):
        once(stale)
    assert count(catalog) == 2


def test_a_commit_to_a_dropped_table_finds_none(catalog, table):
    catalog.drop_table("ods.t")
    with pytest.raises(RESTError, match="NoSuchTableError"):
        once(table)


def test_one_of_two_writers_wins(server, catalog, table):
    stale = [client(server).load_table("ods.t") for _ in range(4)]

    def committed(handle) -> bool:
        try:
            once(handle)
        except CommitFailedException:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(committed, stale)) == [False, False, False, True]
    assert count(catalog) == 2


def test_a_client_needs_its_credential_or_a_token(server):
    with pytest.raises(OAuthError, match="unknown client"):
        client(server, credential="lake-client:wrong")
    static = {"type": "rest", "uri": server.url}
    assert load_catalog("any", **static, token="static").list_namespaces() == []
    with pytest.raises(UnauthorizedError):
        load_catalog("any", **static, token="wrong")


def test_a_token_that_has_expired_is_fetched_again(server, catalog):
    server.service.tokens.clear()
    assert catalog.list_namespaces() == [("ods",)]


def test_what_the_server_overrides_wins_over_the_client(server):
    server.service.defaults = {"a": "server", "b": "server"}
    server.service.overrides = {"c": "server"}
    properties = client(server, a="client", c="client").properties
    assert [properties[name] for name in "abc"] == ["client", "server", "server"]


def test_credentials_are_vended_to_any_client(server, catalog, table):
    server.service.vended = {"s3.access-key-id": "for an hour"}
    assert catalog.load_table("ods.t").config == {"s3.access-key-id": "for an hour"}
    own = client(server, **{"header.X-Iceberg-Access-Delegation": "remote-signing"})
    assert own.load_table("ods.t").config == {}


OUTCOMES = {
    "500": (CommitStateUnknownException, 0),
    "late-500": (CommitStateUnknownException, 2),
    "503": (ServiceUnavailableError, 0),
    "late-503": (ServiceUnavailableError, 2),
    "dropped": (requests.ConnectionError, 0),
    "lost": (requests.ConnectionError, 2),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_commit_fails_before_or_after_it_is_done(server, catalog, table, kind):
    error, rows = OUTCOMES[kind]
    server.faults.plan(Fault(kind, "CommitTable"))
    with pytest.raises(error):
        once(table)
    assert server.faults.met == {f"CommitTable {kind}": 1}
    assert count(catalog) == rows


def test_requests_are_counted(server, catalog, table):
    server.faults.forget()
    once(table)
    assert server.faults.requests == {"CommitTable": 1}
