"""A project's Spark Connect server: one for all runs, for its owner only, replaced if need be."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import uuid4

import pytest
import yaml
from pyspark.sql.connect.session import SparkSession

from logdriven_dagster.config import Project, load_project
from logdriven_dagster.config.derived.needs import Need
from logdriven_dagster.config.project import REMOTE_VARIABLE
from logdriven_dagster.engine.needs import refuse_missing
from logdriven_dagster.engine.spark.actions import QueryCounts, query_counts
from logdriven_dagster.engine.spark.connect import metrics as connect_metrics
from logdriven_dagster.engine.spark.connect.mode import ConnectMode
from logdriven_dagster.engine.spark.connecting import remote_url
from logdriven_dagster.engine.spark.mode import Mark
from logdriven_dagster.engine.spark.server import lifecycle as connect_server
from logdriven_dagster.engine.spark.server import state as server_state
from logdriven_dagster.engine.spark.server.state import Server
from logdriven_dagster.errors import UnmetNeedError, UsageError
from tests.security.spy import ask_for_a_block
from tests.spark_session import JAVA

SECRET = "a-secret-of-the-project"
CSV = {"type": "csv"}
TABLE = {
    "table": "ods.t",
    "period": 1440,
    "default_start": "2022-01-01",
    "end": "2022-01-02",
    "steps": [
        {"step": "s", "sql": "SELECT id FROM range(9) WHERE id > 3", "target": {"type": "csv"}}
    ],
}


def write(root: Path, **spark: Any) -> Project:
    config = {"spark.driver.extraJavaOptions": JAVA, "spark.driver.memory": "1g"}
    config |= {"spark.hadoop.a.password": "${env:SERVER_TEST_PASSWORD}"} | spark.pop("config", {})
    settings = {"project": "warm", "timezone": "Asia/Tokyo"}
    settings["spark"] = {"master": "local[2]", "remote": "auto", "config": config, **spark}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    (root / "tables").mkdir(exist_ok=True)
    (root / "tables/t.yaml").write_text(yaml.safe_dump(TABLE))
    return load_project(root)


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER_TEST_PASSWORD", SECRET)
        patch.delenv(REMOTE_VARIABLE, raising=False)
        yield


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, spark_processes: None, long: None
) -> Iterator[Project]:
    project = write(tmp_path_factory.mktemp("warm"))
    yield project
    connect_server.stop(project, lambda _: None)


@pytest.fixture
def server(project: Project) -> Server:
    return connect_server.start(project, lambda _: None).server


def command(project: Project, *arguments: str) -> str:
    """Of the command line in a process of its own."""
    line = [sys.executable, "-m", "logdriven_dagster.cli", *arguments, "--project", project.root]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("long")
def test_starting_it_again_finds_it_running(project: Project, server: Server):
    again = connect_server.start(project, lambda _: None)
    assert (again.server, again.seconds, again.replaced) == (server, 0.0, False)
    told = json.loads(command(project, "spark", "status", "--json"))
    assert (told["running"], told["pid"], told["current"]) == (True, server.pid, True)


def test_a_run_uses_it_and_counts_as_before(project: Project, server: Server):
    command(project, "run")
    (row,) = json.loads(command(project, "log", "--json"))
    assert row["application_id"] == server.application
    (step,) = row["steps"]
    assert (step["source_count"], step["target_count"]) == (5, 5)


def test_no_secret_shows_in_its_command_line_or_to_others(project: Project, server: Server):
    assert server.process is not None
    log = server_state.folder(project) / "spark.log"
    shown = " ".join(server.process.cmdline()) + log.read_text()
    assert server.token not in shown
    assert SECRET not in shown
    assert not (server_state.folder(project) / "spark.properties").exists()
    for name in ("spark.json", "spark.log"):
        assert (server_state.folder(project) / name).stat().st_mode & 0o077 == 0


def test_it_listens_on_this_machine_only(server: Server):
    assert server.process is not None
    listening = [c.laddr for c in server.process.net_connections("tcp") if c.status == "LISTEN"]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_a_stranger_gets_no_block_of_it(server: Server):
    assert server.process is not None
    connections = server.process.net_connections("tcp")
    ports = [c.laddr.port for c in connections if c.status == "LISTEN"]
    answers = [ask_for_a_block(port) for port in ports]
    assert "given" not in answers
    assert sum("Sasl" in answer for answer in answers) == 2  # the driver and its block manager


def test_without_the_token_it_answers_nothing(server: Server):
    from pyspark.sql.connect.session import SparkSession

    with pytest.raises(HTTPError, match="403"):
        urlopen(f"http://127.0.0.1:{server.pages_port}/api/v1/applications")
    stranger = SparkSession(f"sc://localhost:{server.port}/;token=wrong")
    with pytest.raises(Exception, match=r"(?i)token|unauthenticated"):
        stranger.sql("SELECT 1").collect()


@pytest.mark.usefixtures("long")
def test_a_server_of_another_time_zone_is_refused_by_a_project_with_databases(
    project: Project, server: Server, tmp_path: Path
):
    other = write(tmp_path)
    settings = yaml.safe_load((tmp_path / "logdriven.yaml").read_text())
    settings |= {"timezone": "Europe/Berlin", "connections": {"lite": {"url": "sqlite:///x.db"}}}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    code = "import sys; from logdriven_dagster.engine import spark_session as s;"
    code += "from logdriven_dagster.config import load_project; s(load_project(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", code, other.root],
        env={**os.environ, REMOTE_VARIABLE: server.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the Spark server's JVM is in the time zone Asia/Tokyo" in ran.stderr


@pytest.mark.usefixtures("long")
def test_a_server_with_other_settings_is_left_alone_and_replaced_by_the_next_start(
    project: Project, server: Server, caplog: pytest.LogCaptureFixture
):
    changed = write(project.root, config={"spark.sql.shuffle.partitions": 3})
    assert remote_url(changed) is None
    assert "settings that have changed" in caplog.text
    asked: list[Server] = []
    again = connect_server.start(changed, asked.append)
    assert (again.replaced, asked) == (True, [server])
    assert server.process is None
    assert remote_url(changed) == again.server.url


def test_a_server_that_died_is_no_server(project: Project):
    server = server_state.running(project)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    assert server.process is None or server.process.wait(10) is not None
    assert server_state.running(project) is None
    assert remote_url(project) is None
    assert connect_server.stop(project, lambda _: None) is None


@pytest.mark.usefixtures("long")
def test_the_first_of_two_runs_starts_the_server_that_both_use(
    project: Project, caplog: pytest.LogCaptureFixture
):
    assert server_state.running(project) is None
    wanted = write(project.root, remote="server")
    with ThreadPoolExecutor(2) as runs:
        first, second = runs.map(lambda _: remote_url(wanted), range(2))
    started = server_state.running(wanted)
    assert started is not None
    assert first == second == started.url
    changed = write(project.root, remote="server", config={"spark.sql.shuffle.partitions": 5})
    assert remote_url(changed) is None  # the server may have work of other runs
    assert "settings that have changed" in caplog.text


def test_a_server_of_another_machine_must_see_the_projects_files(tmp_path: Path):
    with pytest.raises(UsageError, match=r"spark\.shared_files"):
        remote_url(write(tmp_path, remote="sc://spark.example:15002"))
    shared = write(tmp_path, remote="sc://spark.example:15002", shared_files=True)
    assert remote_url(shared) == "sc://spark.example:15002"


def test_files_of_this_host_are_no_source_for_a_server_elsewhere(tmp_path: Path):
    source = {"type": "csv", "path": "data/a.csv"}
    steps = [{"step": "s", "source": source, "target": {"type": "csv"}}]
    write(tmp_path, remote="sc://spark.example:15002")
    (tmp_path / "tables/t.yaml").write_text(yaml.safe_dump({**TABLE, "steps": steps}))
    need = Need("table", "ods.t")
    with pytest.raises(UnmetNeedError, match=r"data/a\.csv are on this host, .*spark\.example"):
        refuse_missing(load_project(tmp_path), need)
    write_over = (tmp_path / "tables/t.yaml").read_text().replace("data/", "s3://lake/")
    (tmp_path / "tables/t.yaml").write_text(write_over)
    refuse_missing(load_project(tmp_path), need)


def test_the_environment_wins_over_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project = write(tmp_path, remote="classic")
    monkeypatch.setenv(REMOTE_VARIABLE, "sc://localhost:1/;token=${env:SERVER_TEST_PASSWORD}")
    assert remote_url(project) == f"sc://localhost:1/;token={SECRET}"
    monkeypatch.setenv(REMOTE_VARIABLE, "nonsense")
    with pytest.raises(UsageError, match="expected classic, auto, server or sc://"):
        remote_url(project)


@pytest.fixture
def counted(server: Server) -> Iterator[Any]:
    """Writes rows on the server, four of them by default, and asks it for their counts."""
    session: Any = SparkSession(server.url)
    mode = ConnectMode()

    def write_and_count(
        folder: Path, sql: str = "SELECT id FROM range(9) WHERE id > 4"
    ) -> QueryCounts:
        mark = Mark("count", f"logdriven-{uuid4().hex}")
        mode.mark(session, mark)
        session.sql(sql).write.parquet(str(folder / uuid4().hex))
        return query_counts(session, mark)

    yield write_and_count
    mode.release(session)


@pytest.mark.usefixtures("long")
def test_pages_that_forget_a_query_while_they_list_it_are_asked_again(
    counted, tmp_path, monkeypatch
):
    forgetful(monkeypatch, times=3)
    found = counted(tmp_path)
    assert (found.source, found.written) == (4, 4)


@pytest.mark.usefixtures("long")
def test_a_server_may_forget_the_stages_that_it_did_not_have_to_run(counted, tmp_path, monkeypatch):
    """As it does with its first ones beyond `spark.ui.retainedStages`."""
    ask, forgotten = connect_metrics.StatusPages.ask, []

    def answer(pages: Any, path: str) -> Any:
        found = ask(pages, path)
        if path.startswith("/stages/") and {run["status"] for run in found} == {"SKIPPED"}:
            forgotten.append(path)
            raise HTTPError(path, 404, "unknown stage", Message(), None)
        return found

    monkeypatch.setattr(connect_metrics.StatusPages, "ask", answer)
    found = counted(
        tmp_path, "SELECT id % 2 AS k, count(*) AS n FROM range(9) GROUP BY 1 ORDER BY n"
    )
    assert (found.source, found.written, len(forgotten) > 0) == (9, 2, True)


def test_a_count_that_cannot_be_asked_is_unknown_and_fails_nothing(counted, tmp_path, monkeypatch):
    forgetful(monkeypatch, times=10**6)
    monkeypatch.setattr(connect_metrics, "_PATIENCE_SECONDS", 0.5)
    assert counted(tmp_path) == QueryCounts(None, None)


def forgetful(monkeypatch: Any, times: int) -> None:
    """Let the pages answer 404 so many times, as when a query is evicted."""
    ask, asked = connect_metrics.StatusPages.ask, iter(range(times))

    def answer(pages: Any, path: str) -> Any:
        if next(asked, None) is not None:
            raise HTTPError(path, 404, "unknown query execution id", Message(), None)
        return ask(pages, path)

    monkeypatch.setattr(connect_metrics.StatusPages, "ask", answer)
