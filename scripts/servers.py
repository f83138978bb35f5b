#!/usr/bin/env python3
"""Private PostgreSQL and MariaDB servers for the tests: `start` and `stop`.

They listen on free loopback ports, keep their data in a folder of their own below the system's
temporary folder, and never touch a server that the machine runs. `start` installs missing Debian
packages (as root or by sudo) and writes `.servers/urls.env`, lines of `NAME=URL`; the URLs are
those of a superuser, so that tests can create databases.
"""

import argparse
import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".servers"
URLS = FOLDER / "urls.env"
STATE = FOLDER / "state.json"
USER = "logdriven"
START_SECONDS = 60


class MissingServerError(Exception):
    """A server's program is not installed and cannot be installed here."""


def start() -> dict[str, str]:
    """Start the servers unless they run; returns and writes variable name → URL."""
    if (urls := running()) is not None:
        return urls
    stop()
    install_missing()
    data = Path(tempfile.mkdtemp(prefix="logdriven-servers-"))
    data.chmod(0o755)
    FOLDER.mkdir(exist_ok=True)
    state = {"data": str(data), "pids": {}}
    urls = {}
    password = secrets.token_hex(8)
    for variable, launch in LAUNCHERS.items():
        port = _free_port()
        process = launch(data, port, password)
        state["pids"][variable] = process.pid
        STATE.write_text(json.dumps(state))
        _wait_for(port, process, data / f"{launch.__name__}.log")
        scheme = variable.rsplit("_", 1)[1].lower()
        database = {"postgres": "postgres", "mariadb": "mysql"}[scheme]
        scheme = {"postgres": "postgresql", "mariadb": "mysql"}[scheme]
        urls[variable] = f"{scheme}://{USER}:{password}@127.0.0.1:{port}/{database}"
    URLS.write_text("".join(f"{name}={url}\n" for name, url in urls.items()))
    return urls


def stop() -> None:
    """Stop the servers that `start` started and remove their data."""
    if not STATE.exists():
        return
    state = json.loads(STATE.read_text())
    for pid in state["pids"].values():
        if _is_ours(pid, state["data"]):
            os.kill(pid, signal.SIGTERM)
            _wait_until(lambda pid=pid: not _is_ours(pid, state["data"]), 30)
    shutil.rmtree(state["data"], ignore_errors=True)
    shutil.rmtree(FOLDER, ignore_errors=True)


def running() -> dict[str, str] | None:
    """The URLs of the servers that an earlier `start` left running, if they still do."""
    if not (URLS.exists() and STATE.exists()):
        return None
    state = json.loads(STATE.read_text())
    if not all(_is_ours(pid, state["data"]) for pid in state["pids"].values()):
        return None
    return dict(line.split("=", 1) for line in URLS.read_text().splitlines())


def install_missing() -> None:
    """Install the servers' Debian packages; MissingServerError where that is impossible."""
    if _postgres_folder() and shutil.which("mariadbd", path=_PATH):
        return
    if not shutil.which("apt-get") or (os.geteuid() != 0 and not shutil.which("sudo")):
        raise MissingServerError("no PostgreSQL or MariaDB server here, and no apt-get as root")
    subprocess.run([ROOT / "scripts" / "test_packages.sh"], check=True)


def postgres(data: Path, port: int, password: str) -> subprocess.Popen[bytes]:
    """A PostgreSQL server; durability is off, since its data live as long as the tests."""
    programs = _postgres_folder()
    assert programs
    folder, account = _owned_folder(data / "postgres", "postgres")
    (folder / "password").write_text(password)
    cluster = folder / "cluster"
    _run(
        [programs / "initdb", "--pgdata", cluster, "--username", USER, "--encoding", "UTF8",
         "--auth", "scram-sha-256", "--pwfile", folder / "password", "--no-locale", "--no-sync"],
        account,
    )  # fmt: skip
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": folder,
        "fsync": "off",
        "full_page_writes": "off",
        "max_connections": 200,
        "timezone": "Asia/Tokyo",  # not UTC: the run log's times must not depend on it
    }
    command = [programs / "postgres", "-D", cluster]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    return _launch(command, account, data / "postgres.log")


def mariadb(data: Path, port: int, password: str) -> subprocess.Popen[bytes]:
    """A MariaDB server; durability is off, since its data live as long as the tests."""
    folder, account = _owned_folder(data / "mariadb", "mysql")
    cluster = folder / "cluster"
    _run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={cluster}", "--skip-test-db",
         "--auth-root-authentication-method=normal"],
        account,
    )  # fmt: skip
    script = folder / "init.sql"
    script.write_text(
        f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
    )
    command = [
        shutil.which("mariadbd", path=_PATH), "--no-defaults", f"--datadir={cluster}",
        "--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}", f"--init-file={script}", "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--max-connections=200",
        "--innodb-buffer-pool-size=128M",
        "--default-time-zone=+09:00",  # not UTC: the run log's times must not depend on it
    ]  # fmt: skip
    return _launch(command, account, data / "mariadb.log")


LAUNCHERS = {"LOGDRIVEN_TEST_POSTGRES": postgres, "LOGDRIVEN_TEST_MARIADB": mariadb}

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def _postgres_folder() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not folders and (found := shutil.which("postgres")):
        folders = [Path(found)]
    return folders[-1].parent if folders else None


def _owned_folder(folder: Path, account: str) -> tuple[Path, str | None]:
    """A new folder, and the account to run a server with: neither server runs as root."""
    folder.mkdir()
    if os.geteuid() != 0:
        return folder, None
    user = pwd.getpwnam(account)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return folder, account


def _run(command: list[object], account: str | None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        **_as(account),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")


def _launch(command: list[object], account: str | None, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            **_as(account),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,  # Ctrl-C on the tests must not end the servers before them
        )


def _as(account: str | None) -> dict[str, object]:
    if account is None:
        return {}
    user = pwd.getpwnam(account)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{log.read_text(errors='replace')}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    if not _wait_until(listens, START_SECONDS):
        raise RuntimeError(f"no server on port {port}:\n{log.read_text(errors='replace')}")


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _is_ours(pid: int, data: str) -> bool:
    """Whether the process still is the server that was started on this data folder."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # where it is our own child, it must not stay a zombie
    try:
        return data.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["start", "stop"])
    if parser.parse_args().command == "stop":
        stop()
        return 0
    try:
        urls = start()
    except MissingServerError as error:
        print(error, file=sys.stderr)
        return 1
    for name, url in urls.items():
        print(f"{name}={url}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
