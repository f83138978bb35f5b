#!/usr/bin/env bash
# A MariaDB server (10.11.19 of Debian 12) that starts removes the temporary tables of another
# server that is running, if both have the same folder for temporary files. Its default is /tmp for
# all servers of a machine, so a second server that is started for tests breaks queries of a first:
# those that need a temporary table on disk, too ("Error on delete of '/tmp/#sql-temptable-…MAI'").
# Seen: files of a TEMPORARY TABLE are in the folder; a second server with a data folder and a
# socket of its own starts; the files are gone, and DROP TABLE in the session that made the table
# raises 1051, "Unknown table".
# Needs the libraries of Debian's mariadb-server-core; the programs are unpacked in a temporary
# folder, nothing is installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid 2>/dev/null) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
version=1:10.11.19-0+deb12u1
(
    cd "$folder"
    apt-get download -qq "mariadb-server-core=$version" "mariadb-client-core=$version" 2>/dev/null
    for each in *.deb; do dpkg -x "$each" root; done
)
programs=$folder/root/usr
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymysql==1.1.2
mkdir "$folder/shared"
user=()
[ "$(id -u)" != 0 ] || user=(--user=root)

prepare() { # NAME
    "$programs/bin/mariadb-install-db" --no-defaults --basedir="$programs" --skip-test-db \
        --datadir="$folder/$1" --tmpdir="$folder" --auth-root-authentication-method=normal \
        "${user[@]}" >"$folder/$1.out" 2>&1
}

prepare first
prepare second
export folder programs
"$folder/venv/bin/python" - "${user[@]}" <<'PYTHON'
import os
import subprocess
import sys
import time
from pathlib import Path

import pymysql

folder = Path(os.environ["folder"])


def connect(name):
    return pymysql.connect(unix_socket=str(folder / f"{name}.sock"), user="root", database="mysql")


def files():
    return sorted(path.name for path in (folder / "shared").glob("#sql*"))


def start(name):
    program = Path(os.environ["programs"], "sbin/mariadbd")
    command = [program, "--no-defaults", f"--basedir={os.environ['programs']}"]
    command += ["--skip-networking", f"--datadir={folder / name}", *sys.argv[1:]]
    command += [f"--socket={folder / name}.sock", f"--pid-file={folder / name}.pid"]
    with open(folder / f"{name}.log", "w") as log:
        subprocess.Popen([*command, f"--tmpdir={folder / 'shared'}"], stdout=log, stderr=log)
    for _ in range(100):
        try:
            return connect(name)
        except pymysql.OperationalError:
            time.sleep(0.2)
    sys.exit((folder / f"{name}.log").read_text())


cursor = start("first").cursor()
cursor.execute("CREATE TEMPORARY TABLE t ENGINE=Aria AS SELECT 42 AS n")
cursor.execute("SELECT n FROM t")
assert cursor.fetchall() == ((42,),)
assert files(), "temporary tables are elsewhere now"
start("second")
assert not files(), "a server that starts leaves the temporary tables of another one now"
try:
    cursor.execute("DROP TABLE t")
except pymysql.Error as error:
    assert error.args[0] == 1051, error
    print("the first server:", error)
else:
    sys.exit("the first server does without its files now")
PYTHON
