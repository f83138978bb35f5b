"""A Hive metastore out of PySpark's own jars, over Derby; it starts in 10 to 25 s.

`python -m scripts.lake.hive FOLDER --port 9083` serves one whose data lie in the folder.
"""

import argparse
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_PATIENCE_SECONDS = 180
_OPENS = [f"java.base/{name}" for name in ("java.lang", "java.net", "java.util")]
_JAVA = [
    *(f"--add-opens={name}=ALL-UNNAMED" for name in [*_OPENS, "java.base/java.util.concurrent"]),
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx256m",
]
_SETTINGS = {
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    # Columns of Iceberg change by their ids; Hive would compare them by their places.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
    # PySpark brings neither of what these two would take otherwise.
    "hive.async.log.enabled": "false",
    "datanucleus.connectionPoolingType": "HikariCP",
}


@contextmanager
def metastore(folder: Path, hadoop: Mapping[str, str], port: int = 0) -> Iterator[str]:
    """The URI of a metastore that runs while the context is open.

    `hadoop` holds the settings by which it reaches the folders of tables, which it makes.
    """
    port = port or _free_port()
    _configure(folder, hadoop)
    _make_lock_tables(folder)
    command = [*_java(folder), "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (folder / "metastore.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _wait(process, port, folder)
        yield f"thrift://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _configure(folder: Path, hadoop: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = _SETTINGS | {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        **{name.removeprefix("spark.hadoop."): value for name, value in hadoop.items()},
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>\n{properties}</configuration>\n")


def _make_lock_tables(folder: Path) -> None:
    """Make what Hive itself makes by a script that PySpark does not bring."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    java, *options, _, class_path = _java(folder)
    port, process = launch_gateway(
        classpath=class_path,
        javaopts=options,
        java_path=java,
        die_on_exit=True,
        return_proc=True,
        cwd=folder,
    )
    gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        hive = gateway.jvm.org.apache.hadoop.hive
        hive.metastore.txn.TxnDbUtil.prepDb(hive.conf.HiveConf())
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def _java(folder: Path) -> list[str]:
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java") or "java"
    return [java, *_JAVA, "-cp", f"{folder}:{Path(pyspark.__file__).parent}/jars/*"]


def _wait(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the metastore did not start:\n{(folder / 'metastore.log').read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def properties(uri: str) -> dict[str, str]:
    """The `catalog:` block of a project that uses the metastore, which is one of Hive 2."""
    return {"type": "hive", "uri": uri, "hive.hive2-compatible": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(description="A Hive metastore over Derby")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=9083)
    options = parser.parse_args()
    with metastore(options.folder.resolve(), {}, options.port) as uri:
        print(uri, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
