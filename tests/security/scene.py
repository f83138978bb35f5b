"""A project whose secrets are planted, run as a process of its own, so that others can look."""

import base64
import html
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import psutil
import yaml

SPY = Path(__file__).with_name("spy.py")
NOBODY = 65534
PLANTED = {
    "PLANTED_URL": "url-0f/Pl4nt@d 1",
    "PLANTED_OPTION": "option-0f-Pl4nt3d",
    "PLANTED_VARIABLE": "variable 0f <Pl4nt3d>",
    "PLANTED_SPARK": "spark-0f/Pl4nt3d=",
    "PLANTED_KAFKA": "kafka-0f+Pl4nt3d",
    "PLANTED_HOOK": "hook/0f/Pl4nt3d",
    "PLANTED_LOG": "log-0f/Pl4nt@d",
}
HOSTILE = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script>\u202e=cmd|' /C calc'!A1"
_STEP = {"step": "load", "target": {"type": "iceberg"}}
_TABLE = {"incremental_type": "full", "period": "1 day", "default_start": "2022-01-01"}
_SLICED = {"incremental_type": "kafka_offset", "period": "1 day"}
_WAITS = """
import os, time
def waits(spark):
    frame = spark.sql("SELECT /*+ BROADCAST(b) */ a.id FROM range(9) a JOIN range(9) b USING (id)")
    frame.count()
    open("ready", "w").close()
    for _ in range(600):
        if os.path.exists("go"):
            break
        time.sleep(0.1)
    return frame
"""
_PROGRAM = """
import sys
from logdriven_dagster.cli.app import main
from logdriven_dagster.config import load_project

def command(*words):
    sys.argv = ["logdriven", *words]
    try:
        main()
    except SystemExit:
        pass

command("run", "--now", "2022-01-02")
from dagster import DagsterInstance
from logdriven_dagster.orchestration.code_location import build_definitions
job = build_definitions(load_project(".")).resolve_job_def("catch_up")
with DagsterInstance.local_temp("events") as instance:
    config = {"now": "2022-01-03", "tables": ["b.url", "b.bound", "b.hostile"]}
    config = {"ops": {"catch_up": {"config": config}}}
    job.execute_in_process(instance=instance, raise_on_error=False, run_config=config)
command("log")
command("log", "--json")
command("status")
command("metrics")
for form in ("html", "csv", "json"):
    span = ("--from", "2000-01-01", "--to", "2100-01-01")
    command("report", *span, "--format", form, "--output", f"report.{form}")
"""


def forms(secret: str) -> set[str]:
    """A secret as it is, as part of a URL or page, and in Base64."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        quote(secret),
        html.escape(secret),
    } | {
        encoded,
        encoded.rstrip("="),
    }


WORDS = sorted({form for secret in PLANTED.values() for form in forms(secret)})


def settings(run_log: str) -> dict[str, Any]:
    kafka = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}
    kafka |= {"sasl.mechanism": "PLAIN", "sasl.username": "u", "socket.timeout.ms": 1000}
    return {
        "project": "vault",
        "run_log": run_log,
        "variables": {"hook": "${env:PLANTED_VARIABLE}"},
        "connections": {
            "shop": {"url": "postgresql://me:${env:PLANTED_URL}@127.0.0.1:1/none"},
            "bus": {"kafka": kafka | {"sasl.password": "${env:PLANTED_KAFKA}"}},
        },
        "recipients": {
            "chat": {"type": "webhook", "url": "http://127.0.0.1:1/${env:PLANTED_HOOK}"}
        },
        "defaults": {"notify": [{"to": "chat", "on": "always"}]},
        "spark": {
            "master": "local[2]",
            "config": {
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "spark.driver.memory": "1g",
                "spark.ui.enabled": True,
                "spark.hadoop.vault.word": "${env:PLANTED_SPARK}",
            },
        },
    }


def tables() -> dict[str, dict[str, Any]]:
    """The first one waits to be looked at; each of the others fails with a value of its own."""
    csv = {"type": "csv", "path": "hostile.csv", "columns": "v INT"}
    return {
        "a.waits": {"python": "t.py:waits"},
        "b.url": {"source": {"type": "jdbc", "connection": "shop", "table": "t"}},
        "b.bus": {"source": {"type": "kafka", "connection": "bus", "topic": "t"}},
        "b.option": {"source": csv | {"options": {"encoding": "${env:PLANTED_OPTION}"}}},
        "b.variable": {"sql": "SELECT CAST('${hook}' AS INT) AS n"},
        "b.bound": {"sql": "SELECT CAST(:hook AS INT) AS n"},
        "b.path": {"source": csv | {"path": "${hook}/x.csv"}},
        "b.hostile": {"source": csv},
    }


class Scene:
    """The project's folder and the process that runs it."""

    def __init__(self, root: Path, run_log: str) -> None:
        self.root = root
        root.chmod(0o755)
        self._write("logdriven.yaml", settings(run_log))
        for name, step in tables().items():
            kind = _SLICED if name == "b.bus" else _TABLE
            table = {"table": name, **kind, "steps": [_STEP | step]}
            self._write(f"tables/{name}.yaml", table)
        (root / "tables/t.py").write_text(_WAITS)
        (root / "hostile.csv").write_text(f'"{HOSTILE}"\n')
        self.environment = {**os.environ, **PLANTED, "TMPDIR": str(root / "tmp")}
        self.environment.pop("LOGDRIVEN_RUN_LOG", None)
        (root / "tmp").mkdir(mode=0o777)
        (root / "events").mkdir()

    def _write(self, name: str, values: Any) -> None:
        file = self.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(values))

    @contextmanager
    def running(self) -> Iterator[psutil.Popen]:
        """The process, at the instant when its first table waits; it goes on afterwards."""
        with (self.root / "console.txt").open("w") as console:
            process = psutil.Popen(
                [sys.executable, "-c", _PROGRAM],
                cwd=self.root,
                env=self.environment,
                stdout=console,
                stderr=subprocess.STDOUT,
                umask=0,
            )
        try:
            while not (self.root / "ready").exists():
                assert process.poll() is None, self.console
                time.sleep(0.2)
            yield process
            (self.root / "go").touch()
            assert process.wait(300) == 0, self.console
        finally:
            for child in (
                [*process.children(recursive=True), process] if process.is_running() else []
            ):
                child.kill()

    @property
    def console(self) -> str:
        return (self.root / "console.txt").read_text()

    def looked_at(self, process: psutil.Popen | None = None, *, user: int | None = None) -> Any:
        """What the spy found, as this user or as another one."""
        family = [process, *process.children(recursive=True)] if process else []
        java = [p for p in family if "java" in p.name()]
        ports = [
            c.laddr.port for p in java for c in p.net_connections("tcp") if c.status == "LISTEN"
        ]
        folders = [str(self.root), *self._spark_folders()]
        told = {"words": WORDS, "folders": folders, "ports": sorted(set(ports))}
        told |= {"pids": [p.pid for p in family]}
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        line = [python, "-", *()] if user is None else ["setpriv", f"--reuid={user}"]
        if user is not None:
            line += [f"--regid={user}", "--clear-groups", python, "-"]
        code = SPY.read_text().replace("json.load(sys.stdin)", f"json.loads({json.dumps(told)!r})")
        done = subprocess.run(
            line, input=code, capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _spark_folders(self) -> list[str]:
        begun = (self.root / "logdriven.yaml").stat().st_mtime
        found = [
            p for name in ("spark-*", "blockmgr-*", "logdriven-*") for p in Path("/tmp").glob(name)
        ]
        return [str(p) for p in found if p.stat().st_mtime >= begun]
