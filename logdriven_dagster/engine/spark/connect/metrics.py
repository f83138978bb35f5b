"""The plan and row counts of a finished query, from the server's status pages.

A write over Spark Connect reports no metrics. A server that `logdriven spark start` started keeps
the same status store as a classic session and serves it over HTTP, on this machine only and only to
clients with the server's token. Other servers' row counts are not available.
"""

import base64
import hmac
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from logdriven_dagster.config.secrets import redact, remember
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.engine.spark.query_plans import (
    LOOKED_UP,
    ROWS,
    SAMPLED,
    PlanNode,
    QueryPlan,
    StageRun,
    is_write,
    number,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS_DIGEST = "spark.logdriven.settings"
"""Setting that only our servers have: the digest of the settings that they were started with."""

SERVER_ZONE = "spark.logdriven.timezone"
"""Setting that only our servers have: the time zone of the JVM."""

PAGES_FILTER = "org.apache.spark.ui.JWSFilter"
PAGES_KEY = f"spark.{PAGES_FILTER}.param.secretKey"
PAGES_PORT = "spark.ui.port"

_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5
_ALL = 10_000
_NOT_RUN = "SKIPPED"
_TELLING = ("CollectMetrics", "Exchange")
"""Nodes whose descriptions affect the counts of scans below them."""

Json = Mapping[str, Any]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StatusPages:
    """The address of a server's status pages, and the token that authorizes requests."""

    address: str
    bearer: str
    is_one_jvm: bool = True
    """True if the server has no executors that could be lost."""

    def ask(self, path: str) -> Any:
        """Request a page below the application's address and parse its JSON."""
        headers = {"Authorization": f"Bearer {self.bearer}"}
        with urlopen(Request(f"{self.address}{path}", headers=headers), timeout=30) as answer:  # noqa: S310 - 127.0.0.1
            return json.load(answer)


def pages_key(token: str) -> str:
    """Return the key with which the pages of the server with this token verify signatures."""
    return base64.urlsafe_b64encode(_key(token)).decode()


def status_pages(port: int | str, application: str, token: str) -> StatusPages:
    """Return the pages of an application on this port; `token` is the server's token."""
    signed = _base64(b'{"alg":"HS256"}') + b"." + _base64(b'{"sub":"logdriven"}')
    signature = hmac.digest(_key(token), signed, "sha256")
    bearer = (signed + b"." + _base64(signature)).decode()
    remember(bearer)
    return StatusPages(f"http://127.0.0.1:{port}/api/v1/applications/{application}", bearer)


def is_ours(spark: "SparkSession") -> bool:
    """Return whether `logdriven spark start` started the session's server."""
    return spark.conf.get(SETTINGS_DIGEST, None) is not None


def reports_plans(spark: "SparkSession") -> bool:
    """Return whether `query_plan` is available from the session's server."""
    return _pages_of(spark) is not None


def query_plan(spark: "SparkSession", tag: str) -> QueryPlan | None:
    """Return the plan of the latest query that ran under this tag; None if it is not available.

    It is not available on a server that this project did not start, or if the server does not
    answer or no longer has the query: it keeps only the last queries of all its clients. A missing
    count never fails a window.
    """
    pages = _pages_of(spark)
    if pages is None:
        return None
    # Metrics reach the store through an asynchronous queue.
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, _POLL_SECONDS
    problem: object = "the server does not know the query"
    while time.monotonic() < deadline:
        try:
            if found := _find_finished(pages, tag):
                plans = [pages.ask(f"/sql/{id_}?planDescription=false") for id_ in found]
                return None if _hides_what_matters(pages, plans[-1]) else _plan(pages, plans)
        except OSError as error:
            # The pages also answer 404 to a list if a query is dropped while they compile it.
            problem = error
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE_SECONDS)
    logger.warning("counts_unknown: %s", redact(str(problem)))
    return None


def _pages_of(spark: "SparkSession") -> StatusPages | None:
    client: Any = spark.client
    server = (client.host, client.token)  # each server has its own token
    if server not in _known_pages:
        wanted = (SETTINGS_DIGEST, PAGES_PORT, "spark.app.id", "spark.master")
        answers = client.get_config_with_defaults(*((name, None) for name in wanted))
        digest, port, application, master = answers
        _known_pages[server] = None
        if digest is not None and client.token is not None:
            pages = status_pages(port, application, client.token)
            _known_pages[server] = replace(pages, is_one_jvm=is_one_jvm(master or ""))
    return _known_pages[server]


_known_pages: dict[tuple[str, str | None], StatusPages | None] = {}


def _find_finished(pages: StatusPages, tag: str) -> list[int]:
    """Return the execution ids under a tag in ascending order; empty until all of them have ended.

    Jobs refer to tags, executions refer to jobs. A JDBC write consists of several executions below
    one root: each counts only the stages that it ran.
    """
    tagged = [job for job in pages.ask("/jobs") if any(t.endswith(tag) for t in job["jobTags"])]
    jobs = {job["jobId"] for job in tagged}
    executions = pages.ask(f"/sql?details=false&planDescription=false&length={_ALL}")
    roots = {_root(each) for each in executions if jobs & _jobs(each)}
    found = [each for each in executions if _root(each) in roots]
    if any(each["status"] == "RUNNING" for each in found):
        return []
    return sorted(each["id"] for each in found)


def _hides_what_matters(pages: StatusPages, execution: Json) -> bool:
    """Return whether a plan has scans to leave out that its server cannot identify.

    These scans are not sources, or are read twice. Only Spark 4.2 and newer identify them.
    """
    nodes = [node for node in execution["nodes"] if node["nodeName"] in _TELLING]
    if not nodes or "desc" in nodes[0]:
        return False
    text = str(pages.ask(f"/sql/{execution['id']}?details=false"))
    return LOOKED_UP in text or SAMPLED in text


def _root(execution: Json) -> int:
    """Return the root's id; before Spark 4.2 it is unknown, and each execution is its own root."""
    return int(execution.get("rootExecutionId", execution["id"]))


def _jobs(execution: Json) -> set[int]:
    return {*execution["successJobIds"], *execution["runningJobIds"], *execution["failedJobIds"]}


def _plan(pages: StatusPages, executions: Sequence[Json]) -> QueryPlan:
    """Return the plan of the last execution, with the row counts of all executions.

    A node's row count is the largest of any execution.
    """
    rows: dict[int, list[int]] = {}
    for execution in executions:
        for node in execution["nodes"]:
            counts = [number(m["value"]) for m in node["metrics"] if m["name"] == ROWS]
            rows.setdefault(node["nodeId"], []).extend(counts)
    latest = executions[-1]
    nodes = [
        PlanNode(
            node["nodeId"],
            node["nodeName"].strip(),
            node.get("desc", ""),
            # The pages omit metrics without a value: the counts of nodes that never ran.
            max(rows[node["nodeId"]], default=None if is_write(node["nodeName"]) else 0),
        )
        for node in latest["nodes"]
    ]
    plan = QueryPlan.build(nodes, [(edge["fromId"], edge["toId"]) for edge in latest["edges"]])
    if plan.is_sampled or not pages.is_one_jvm:
        plan = replace(plan, runs=list(_runs(pages, executions)))
    return plan


def _runs(pages: StatusPages, executions: Sequence[Json]) -> Iterator[StageRun]:
    """Yield the stage runs of these executions.

    A server with more stages than it keeps drops skipped stages first.
    """
    jobs = [pages.ask(f"/jobs/{job}") for job in set().union(*map(_jobs, executions))]
    not_run = sum(job["numSkippedStages"] for job in jobs)
    for stage in {stage for job in jobs for stage in job["stageIds"]}:
        try:
            runs = pages.ask(f"/stages/{stage}?details=false")
        except HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND or not_run <= 0:
                raise
            runs = [{"status": _NOT_RUN}]
        if {run["status"] for run in runs} == {_NOT_RUN}:
            not_run -= 1
        else:
            yield from map(StageRun.from_json, runs)


def _key(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
