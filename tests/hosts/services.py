"""What runs on the hosts: storage, catalog and database on one, Spark on another."""

import time
from collections.abc import Callable
from pathlib import Path

import pyspark

from scripts import servers
from scripts.lake import s3
from tests.hosts.machines import DISK, Host
from tests.patience import PATIENCE

BUCKET = "lake"
S3_PORT, HDFS_PORT, CATALOG_PORT, DATABASE_PORT = 9000, 9870, 8181, 5432
SPARK_PORT = 15002
_JAVA = Path(pyspark.__file__).parent
_WEBHDFS = Path(__file__).with_name("webhdfs.py")
_PSQL = [servers.postgres_programs() / "psql", "-h", "/tmp", "-U", "postgres", "-Atq"]
_HDFS = "org.apache.hadoop.hdfs.web.WebHdfsFileSystem"
_VIEW = "org.apache.hadoop.fs.viewfs"
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start_storage(host: Host) -> None:
    """Start S3, WebHDFS, PostgreSQL and a REST catalog on what the disk has of them."""
    (host.disk / BUCKET).mkdir(exist_ok=True)
    _start_database(host)
    everywhere, python = ["--host", "0.0.0.0", "--port"], ["python", "-m"]
    s3_server = [*python, "scripts.lake.s3", f"{BUCKET}={DISK / BUCKET}", *everywhere, str(S3_PORT)]
    host.start(*s3_server, log="s3")
    host.start("python", _WEBHDFS, DISK, str(HDFS_PORT), log="webhdfs")
    for port in (S3_PORT, HDFS_PORT):
        await_port(host, host, port)
    ready = [*_PSQL, "-c", "SELECT 1"]
    _await(lambda: not host.attempt(*ready).returncode, "PostgreSQL")
    if not query(host, "postgres", "SELECT 1 FROM pg_database WHERE datname = 'catalog'"):
        create_database(host, "catalog")
    database = f"postgresql+psycopg://postgres@localhost:{DATABASE_PORT}/catalog"
    places = s3.properties(f"http://{host.name}:{S3_PORT}").items()
    told = [word for name, value in places for word in ("--storage", f"{name}={value}")]
    catalog = [*python, "scripts.lake.rest_catalog", database, "--warehouse", f"s3://{BUCKET}"]
    host.start(*catalog, *told, *everywhere, str(CATALOG_PORT), log="catalog")
    await_port(host, host, CATALOG_PORT)


def _start_database(host: Host) -> None:
    programs, data = servers.postgres_programs(), DISK / "postgres"
    as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if not (host.disk / "postgres").exists():
        host.run("install", "--directory", "--owner=postgres", data)
        made = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N"]
        host.run(*as_postgres, *made)
        host.run("sh", "-c", f"echo 'host all all 10.77.0.0/24 trust' >> {data}/pg_hba.conf")
    (host.disk / "postgres" / "postmaster.pid").unlink(missing_ok=True)  # of before a power failure
    options = ["-k", "/tmp", "-c", "listen_addresses=*", "-c", "max_connections=200"]
    host.start(*as_postgres, programs / "postgres", "-D", data, *options, log="postgres")


def create_database(host: Host, name: str) -> None:
    query(host, "postgres", f"CREATE DATABASE {name}")


def query(host: Host, database: str, statement: str) -> str:
    """What a database answers where it lies."""
    return host.run(*_PSQL, "-d", database, "-c", statement).strip()


def start_spark(host: Host, storage: Host) -> None:
    """Start a standalone cluster of two workers, and a Spark Connect server that works on it.

    Its JVMs have no S3A: they reach the bucket over the network by WebHDFS.
    """
    java = {"SPARK_HOME": str(_JAVA), "PYSPARK_PYTHON": "python", "SPARK_LOCAL_HOSTNAME": host.name}
    java |= {"SPARK_DAEMON_MEMORY": "512m", "SPARK_LOCAL_DIRS": "/tmp/spark"}
    deploy, run = "org.apache.spark.deploy", str(_JAVA / "bin" / "spark-class")
    master = [run, f"{deploy}.master.Master", "--host", host.name, "--port", "7077"]
    host.start(*master, "--webui-port", "0", log="master", **java)
    await_port(host, host, 7077)
    for number in (1, 2):
        worker = [run, f"{deploy}.worker.Worker", "--cores", "1", "--memory", "2g"]
        folder = ["--work-dir", f"/tmp/worker{number}", "--webui-port", "0"]
        host.start(*worker, *folder, "spark://spark:7077", log=f"worker{number}", **java)
    settings = {
        "spark.connect.grpc.binding.address": "0.0.0.0",
        "spark.connect.grpc.binding.port": str(SPARK_PORT),
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {_SMALL_JVM}",
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {_SMALL_JVM}",
        **bucket_settings(storage),
    }
    options = [f"--conf={name}={value}" for name, value in settings.items()]
    connect = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = [
        str(_JAVA / "bin" / "spark-submit"),
        "--class",
        connect,
        "--master",
        "spark://spark:7077",
    ]
    host.start(*submit, *options, "spark-internal", log="connect", **java)
    await_port(host, host, SPARK_PORT)


def bucket_settings(storage: Host) -> dict[str, str]:
    """Let a JVM that has no S3A reach the bucket over the network."""
    there = f"webhdfs://{storage.name}:{HDFS_PORT}/{BUCKET}"
    names = {
        f"fs.viewfs.mounttable.{BUCKET}.linkFallback": there,
        "fs.viewfs.overload.scheme.target.webhdfs.impl": _HDFS,
        "dfs.webhdfs.socket.connect-timeout": "10s",
        "dfs.webhdfs.socket.read-timeout": "10s",
    }
    for scheme in ("s3", "s3a"):
        names[f"fs.{scheme}.impl"] = f"{_VIEW}.ViewFileSystemOverloadScheme"
        names[f"fs.AbstractFileSystem.{scheme}.impl"] = f"{_VIEW}.ViewFs"
    return {f"spark.hadoop.{name}": value for name, value in names.items()}


def await_port(host: Host, of: Host, port: int) -> None:
    """Wait until a host can connect to another one."""
    probe = f"import socket; socket.create_connection(('{of.name}', {port}), 2)"
    _await(lambda: not host.attempt("python", "-c", probe).returncode, f"{of.name}:{port}")


def _await(condition: Callable[[], bool], name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} is not there")
        time.sleep(0.5)
