"""Events of OpenLineage, as a receiver gets them from the client's own transport."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logdriven_dagster.plugins.telemetry import open_lineage
from tests.plugins.telemetry.receiver import Receiver, receiver

BAD = ["2022-01-01,1", "2022-01-02,oops"]


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Let this process's events go to an address; at the end nothing goes anywhere again."""

    def forget() -> None:
        for name in list(os.environ):  # its client sets variables of its own
            if name.startswith("OPENLINEAGE"):
                del os.environ[name]
        open_lineage._sender.cache_clear()

    def to(url: str) -> None:
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        open_lineage._sender.cache_clear()

    forget()
    yield to
    forget()


@pytest.fixture
def received(tmp_path: Path, configured: Callable[[str], None]) -> Iterator[Receiver]:
    with receiver(tmp_path) as found:
        configured(found.url)
        yield found


def sent() -> None:
    """Wait until everything is sent, as the end of a process does."""
    sender = open_lineage._sender()
    assert sender is not None
    sender._finish()


def test_an_attempt_begins_and_ends_with_its_columns_rows_and_versions(spark, world, received):
    world.catch_up(max_windows=2)
    sent()
    events = received.events
    assert [(e["job"]["name"], e["eventType"]) for e in events] == [
        ("ods.numbers", "START"),
        ("ods.numbers", "COMPLETE"),
        ("dws.sums", "START"),
        ("dws.sums", "COMPLETE"),
    ]
    begun, ended, _, summed = events
    assert begun["run"]["runId"] == ended["run"]["runId"]
    assert begun["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2022-01-01T00:00:00+00:00"
    assert ended["run"]["facets"]["logdriven_attempt"]["jobId"] == 1
    (output,) = ended["outputs"]
    assert (output["namespace"], output["name"]) == ("world", "ods.numbers")
    columns = [(f["name"], f["type"]) for f in output["facets"]["schema"]["fields"]]
    assert columns == [("day", "date"), ("n", "int")]
    assert output["facets"]["version"]["datasetVersion"].isdigit()
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    (source,) = summed["inputs"]
    assert (source["namespace"], source["name"]) == ("world", "ods.numbers")
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert "symlinks" not in output["facets"]
    (link,) = summed["outputs"][0]["facets"]["symlinks"]["identifiers"]
    assert (link["namespace"], link["type"]) == ("file", "LOCATION")
    assert Path(link["name"]).is_dir()
    fields = summed["outputs"][0]["facets"]["columnLineage"]["fields"]
    (origin,) = fields["total"]["inputFields"]
    assert (origin["namespace"], origin["name"], origin["field"]) == ("world", "ods.numbers", "n")


def test_a_failure_has_its_error(world, received):
    world.numbers(*BAD)
    world.catch_up(tables=["ods.numbers"])
    sent()
    (*_, failed) = received.events
    assert failed["eventType"] == "FAIL"
    assert "oops" in failed["run"]["facets"]["errorMessage"]["message"]
    assert failed["outputs"] == []


@pytest.mark.parametrize("how", ["deaf", "gone"])
def test_a_receiver_that_does_not_answer_costs_a_window_nothing(
    world, tmp_path: Path, configured, how: str, caplog: pytest.LogCaptureFixture
):
    with receiver(tmp_path, how) as found:
        configured(found.url if how == "deaf" else "http://127.0.0.1:9")
        began = time.monotonic()
        assert open_lineage._sender() is not None
        world.catch_up(tables=["ods.numbers"])
        assert time.monotonic() - began < 60
    assert {status for _, status in world.statuses("ods.numbers")} == {"SUCCESS"}


def test_notifying_takes_no_time(world, received):
    (first, *_) = world.catch_up(tables=["ods.numbers"], max_windows=1)
    began = time.perf_counter()
    for _ in range(100):
        open_lineage.OpenLineage().on_claim([first.attempt])
    assert (time.perf_counter() - began) / 100 < 0.005


@pytest.mark.usefixtures("slow")
def test_without_a_configuration_nothing_is_loaded_and_nothing_runs(tmp_path: Path):
    program = (
        "import sys, threading\n"
        "from logdriven_dagster.plugins.telemetry import open_lineage\n"
        "open_lineage.OpenLineage().on_claim([None])\n"
        "print('openlineage' in sys.modules, threading.active_count())"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command,
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert ended.stdout == "False 1\n"


@pytest.mark.usefixtures("slow")
def test_without_the_package_a_warning_names_the_package_to_install(tmp_path: Path):
    program = (
        "import sys; sys.modules['openlineage'] = None; import logging; logging.basicConfig()\n"
        "from logdriven_dagster.plugins.telemetry import open_lineage\n"
        "open_lineage._sender()._finish()"
    )
    environment = {"OPENLINEAGE_URL": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "pip install 'logdriven_dagster[openlineage]'" in ended.stderr
