"""`logdriven validate --connect` tries every place that the project names."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.lake import rest_catalog, s3
from scripts.lake.faults import Fault
from scripts.lake.serving import Server

CHECK = ("validate", "--connect", "--json")


@pytest.fixture
def servers(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Server, Server]]:
    folder = tmp_path_factory.mktemp("lake")
    monkeypatch.setenv("LAKE_SECRET", s3.SECRET)
    monkeypatch.setenv("CREDENTIAL", rest_catalog.CREDENTIAL)
    with s3.start({"lake": folder / "bucket"}) as objects:
        uri, reached = f"sqlite:///{folder / 'catalog.db'}", s3.properties(objects.url)
        with rest_catalog.start(uri, "s3://lake/wh", reached) as catalog:
            yield objects, catalog


def written(shop: Path, servers: tuple[Server, Server], **changes: object) -> None:
    objects, catalog = servers
    given = {
        "warehouse": "s3://lake/shop",
        "storage": s3.properties(objects.url) | {"s3.secret-access-key": "${env:LAKE_SECRET}"},
        "catalog": rest_catalog.properties(catalog.url) | {"credential": "${env:CREDENTIAL}"},
    }
    file = shop / "logdriven.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | given | changes))


def test_places_that_answer_are_reached_and_nothing_is_left_there(
    shop: Path, servers: tuple[Server, Server], logdriven: Any
):
    written(shop, servers)
    answer = logdriven(*CHECK)
    assert answer.code == 0
    assert answer.json["places"] == {"run log": None, "warehouse": None, "catalog": None}
    assert servers[0].faults.requests["PutObject"] > 0
    left = servers[0].service.buckets["lake"].folder
    assert not [path for path in left.rglob("*") if path.is_file()]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "wrong",
    [("LAKE_SECRET", "warehouse", "SignatureDoesNotMatch"), ("CREDENTIAL", "catalog", "client")],
)
def test_a_refused_connection_is_reported_with_the_fields_to_check_and_without_the_secret(
    shop: Path,
    servers: tuple[Server, Server],
    logdriven: Any,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, str, str],
):
    variable, place, said = wrong
    written(shop, servers)
    monkeypatch.setenv(variable, "not:the-right-one-at-all")
    answer = logdriven(*CHECK)
    assert answer.code == 2
    problem = answer.json["places"][place]
    assert said in problem
    assert "check " in problem
    assert "storage in logdriven.yaml" in problem
    assert "not:the-right-one-at-all" not in answer.out + answer.err


@pytest.mark.usefixtures("long")
def test_an_unreachable_store_is_reported(
    shop: Path, servers: tuple[Server, Server], logdriven: Any
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    storage = s3.properties(f"http://127.0.0.1:{port}")
    storage["s3.secret-access-key"] = "${env:LAKE_SECRET}"
    written(shop, servers, storage=storage)
    assert f"127.0.0.1:{port}" in logdriven(*CHECK).json["places"]["warehouse"]


def test_a_catalog_that_fails_is_reported(
    shop: Path, servers: tuple[Server, Server], logdriven: Any
):
    written(shop, servers)
    servers[1].faults.plan(Fault("503", times=None))
    assert logdriven(*CHECK).json["places"]["catalog"]


def test_a_moved_warehouse_is_reported_until_it_is_adopted(shop: Path, logdriven: Any):
    assert f"{shop}/.logdriven/warehouse" in logdriven("adopt").out
    assert logdriven(*CHECK).code == 0
    file = shop / "logdriven.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"warehouse": "elsewhere"}))
    answer = logdriven(*CHECK)
    assert answer.code == 2
    assert f"the place is {shop}/elsewhere" in answer.json["places"]["run log"]
    assert logdriven("plan").code == 2
    (first, *_) = logdriven("adopt", "--json").json
    assert f"{shop}/.logdriven/warehouse" in first["before"]
    assert logdriven("adopt").out == "The run log has recorded the tables of shop in this place.\n"
    assert logdriven("plan").code == 0
