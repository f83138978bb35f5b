"""Private PostgreSQL and MariaDB servers on loopback, for tests and benchmarks.

`python scripts/servers.py start` prints `LOGDRIVEN_TEST_POSTGRES=…` and `LOGDRIVEN_TEST_MARIADB=…`
and keeps them in `.servers/urls.env`; `stop` ends the servers and removes their data. The Debian
packages come from `scripts/test_packages.sh`.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent / ".servers"
URLS = ROOT / "urls.env"
_PATIENCE_SECONDS = 300


class MissingServerError(RuntimeError):
    """A server's program is not installed."""


def start(root: Path = ROOT) -> dict[str, str]:
    """Start both servers below `root`; SQLAlchemy URLs by the name of their environment variable.

    MissingServerError if one is not installed.
    """
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    urls = {
        "LOGDRIVEN_TEST_POSTGRES": _start_postgres(root / "postgres"),
        "LOGDRIVEN_TEST_MARIADB": _start_mariadb(root / "mariadb"),
    }
    (root / "urls.env").write_text("".join(f"{name}={url}\n" for name, url in urls.items()))
    return urls


def stop(root: Path = ROOT) -> None:
    """End the servers below `root` and remove their data."""
    for pid_file in root.glob("*/server.pid"):
        # PostgreSQL waits for its clients on SIGTERM; SIGINT ends them.
        kind = signal.SIGINT if pid_file.parent.name == "postgres" else signal.SIGTERM
        _end(int(pid_file.read_text().split()[0]), kind)
    shutil.rmtree(root, ignore_errors=True)


def start_postgres(root: Path) -> str:
    """Start a PostgreSQL server below `root`; its SQLAlchemy URL."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    return _start_postgres(root / "postgres")


def start_mariadb(root: Path) -> str:
    """Start a MariaDB server below `root`; its SQLAlchemy URL."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    return _start_mariadb(root / "mariadb")


def restart(root: Path, url: str, kind: signal.Signals = signal.SIGINT) -> None:
    """End the server below `root`, with all its sessions, and start it again at the same URL.

    SIGKILL ends it as a crash does: it recovers from its logs.
    """
    is_postgres = url.startswith("postgresql")
    folder = root / ("postgres" if is_postgres else "mariadb")
    pid = int((folder / "server.pid").read_text().split()[0])
    if kind is signal.SIGKILL:
        _kill(pid)
    _end(pid, kind if is_postgres else signal.SIGTERM)
    launch = _launch_postgres if is_postgres else _launch_mariadb
    launch(folder, int(url.rpartition(":")[2].partition("/")[0]))


def _start_postgres(folder: Path) -> str:
    user, port = _owner(folder, "postgres"), _free_port()
    initdb = postgres_programs() / "initdb"
    command = [initdb, "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N"]
    _run(command, user)
    _launch_postgres(folder, port)
    return f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not binaries:
        raise MissingServerError("PostgreSQL is not installed; run scripts/test_packages.sh")
    return binaries[-1].parent


def _launch_postgres(folder: Path, port: int) -> None:
    programs, data = postgres_programs(), folder / "data"
    user = "postgres" if os.geteuid() == 0 else None
    options = ["-p", port, "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    options += ["-c", "max_connections=200", "-c", f"external_pid_file={folder / 'server.pid'}"]
    _spawn([programs / "postgres", "-D", data, *options], folder, user)
    check = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", port]
    _wait("PostgreSQL", folder, lambda: subprocess.run(_text(check), check=False).returncode == 0)


def _start_mariadb(folder: Path) -> str:
    installer = shutil.which("mariadb-install-db")
    if not shutil.which("mariadbd", path=_PATH) or not installer:
        raise MissingServerError("MariaDB is not installed; run scripts/test_packages.sh")
    data, port = folder / "data", _free_port()
    user = _owner(folder, "mysql")
    # The account's own plug-in wants a socket; the tests come over TCP.
    normal = "--auth-root-authentication-method=normal"
    _run([installer, "--no-defaults", f"--datadir={data}", normal, "--skip-test-db"], user)
    _launch_mariadb(folder, port)
    return f"mysql+pymysql://root@127.0.0.1:{port}/mysql"


def _launch_mariadb(folder: Path, port: int) -> None:
    server = shutil.which("mariadbd", path=_PATH)
    assert server is not None
    user = "mysql" if os.geteuid() == 0 else None
    options = [f"--datadir={folder / 'data'}", f"--socket={folder / 's'}", f"--port={port}"]
    # A server that starts removes the temporary tables of others from the folder they share.
    options += ["--skip-name-resolve", f"--tmpdir={folder}"]
    options += ["--bind-address=127.0.0.1", f"--pid-file={folder / 'server.pid'}"]
    options += ["--max-connections=200", "--innodb-flush-log-at-trx-commit=2", "--debug-no-sync"]
    _spawn([server, "--no-defaults", *options], folder, user)
    _wait("MariaDB", folder, lambda: _answers(port))


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


def _owner(folder: Path, account: str) -> str | None:
    """Make the folder; as root it belongs to the server's account, since servers refuse root."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(account)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return account


def _run(command: list[object], user: str | None) -> None:
    done = subprocess.run(
        _text(command), user=user, cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _spawn(command: list[object], folder: Path, user: str | None) -> None:
    with (folder / "server.log").open("w") as log:
        subprocess.Popen(
            _text(command), user=user, cwd="/", stdout=log, stderr=log, start_new_session=True
        )


def _text(command: list[object]) -> list[str]:
    return [str(part) for part in command]


def _wait(name: str, folder: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not start:\n{(folder / 'server.log').read_text()}")
        time.sleep(0.1)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return bool(connection.recv(1))  # MariaDB greets; only a listening server does
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(pid: int, kind: signal.Signals) -> None:
    try:
        os.kill(pid, kind)
        for _ in range(100):
            _reap(pid)
            os.kill(pid, 0)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill(pid: int) -> None:
    """Kill a server and its sessions, which are groups of their own and hold its shared memory."""
    server = psutil.Process(pid)
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_PATIENCE_SECONDS)


def _reap(pid: int) -> None:
    """A server that this process started stays as a zombie until it is waited for."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


if __name__ == "__main__":
    if sys.argv[1:] == ["start"]:
        for name, url in start().items():
            print(f"{name}={url}")
    elif sys.argv[1:] == ["stop"]:
        stop()
    else:
        sys.exit("usage: servers.py start | stop")
