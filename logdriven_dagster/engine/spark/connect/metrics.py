"""The plan of a finished query and its row counts, from the server's status pages.

Over Connect a write tells no metrics, but a server that `logdriven spark start` started keeps the
same status store as a classic session and answers questions about it over HTTP, on this machine
only and to whoever has the server's token. Of another server's queries nobody knows the counts.
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
"""A setting that only our servers have: what they were started with."""

SERVER_ZONE = "spark.logdriven.timezone"
"""Another one: the time zone of its JVM."""

PAGES_FILTER = "org.apache.spark.ui.JWSFilter"
PAGES_KEY = f"spark.{PAGES_FILTER}.param.secretKey"
PAGES_PORT = "spark.ui.port"

_PATIENCE_SECONDS = 20.0
_POLL_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5
_ALL = 10_000
_NOT_RUN = "SKIPPED"
_TELLING = ("CollectMetrics", "Exchange")
"""Nodes whose descriptions matter to the counts of scans below them."""

Json = Mapping[str, Any]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StatusPages:
    """Where a server answers, and what proves that we may ask."""

    address: str
    bearer: str
    is_one_jvm: bool = True
    """Whether the server has no executors that could be lost."""

    def ask(self, path: str) -> Any:
        """Request a page below the application's address and parse its JSON."""
        headers = {"Authorization": f"Bearer {self.bearer}"}
        with urlopen(Request(f"{self.address}{path}", headers=headers), timeout=30) as answer:  # noqa: S310 - 127.0.0.1
            return json.load(answer)


def pages_key(token: str) -> str:
    """What the pages of the server with this token take signatures by."""
    return base64.urlsafe_b64encode(_key(token)).decode()


def status_pages(port: int | str, application: str, token: str) -> StatusPages:
    """Return the pages of an application on this port."""
    signed = _base64(b'{"alg":"HS256"}') + b"." + _base64(b'{"sub":"logdriven"}')
    signature = hmac.digest(_key(token), signed, "sha256")
    bearer = (signed + b"." + _base64(signature)).decode()
    remember(bearer)
    return StatusPages(f"http://127.0.0.1:{port}/api/v1/applications/{application}", bearer)


def is_ours(spark: "SparkSession") -> bool:
    """Whether the session's server was started by `logdriven spark start`."""
    return spark.conf.get(SETTINGS_DIGEST, None) is not None


def tells_plans(spark: "SparkSession") -> bool:
    """Whether the session's server answers `query_plan`."""
    return _pages_of(spark) is not None


def query_plan(spark: "SparkSession", tag: str) -> QueryPlan | None:
    """Return the latest query that ran under this tag; None if nobody can tell.

    That is so on a server that is not ours, and where the server, which keeps the last queries of
    all its clients only, has forgotten this one or does not answer: a count never fails a window.
    """
    pages = _pages_of(spark)
    if pages is None:
        return None
    # Metrics reach the store through an asynchronous queue.
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, _POLL_SECONDS
    problem: object = "the server does not know the query"
    while time.monotonic() < deadline:
        try:
            if found := _finished(pages, tag):
                plans = [pages.ask(f"/sql/{id_}?planDescription=false") for id_ in found]
                return None if _hides_what_matters(pages, plans[-1]) else _plan(pages, plans)
        except OSError as error:
            # The pages answer 404 to a list, too, if a query is forgotten while they make it.
            problem = error
        time.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE_SECONDS)
    logger.warning("counts_unknown: %s", redact(str(problem)))
    return None


def _pages_of(spark: "SparkSession") -> StatusPages | None:
    client: Any = spark.client
    server = (client.host, client.token)  # a token is one server's
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


def _finished(pages: StatusPages, tag: str) -> list[int]:
    """Return the executions under a tag, in their order; none before all of them have ended.

    Jobs know their tags, executions know their jobs. A JDBC write is several executions below one
    root: each counts only the stages that it ran.
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
    """Whether a plan has scans that are no source, or are read twice: Spark tells it from 4.2 on.

    Before, nobody knows which scans they are.
    """
    nodes = [node for node in execution["nodes"] if node["nodeName"] in _TELLING]
    if not nodes or "desc" in nodes[0]:
        return False
    text = str(pages.ask(f"/sql/{execution['id']}?details=false"))
    return LOOKED_UP in text or SAMPLED in text


def _root(execution: Json) -> int:
    """Return the root's id; before Spark 4.2 nobody tells it, and each stands for itself."""
    return int(execution.get("rootExecutionId", execution["id"]))


def _jobs(execution: Json) -> set[int]:
    return {*execution["successJobIds"], *execution["runningJobIds"], *execution["failedJobIds"]}


def _plan(pages: StatusPages, executions: Sequence[Json]) -> QueryPlan:
    """Return the plan of the last execution; a row count is that of whichever ran the node."""
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
            # The pages leave out what has no value: the counts of nodes that never ran.
            max(rows[node["nodeId"]], default=None if is_write(node["nodeName"]) else 0),
        )
        for node in latest["nodes"]
    ]
    plan = QueryPlan.of(nodes, [(edge["fromId"], edge["toId"]) for edge in latest["edges"]])
    if plan.is_sampled or not pages.is_one_jvm:
        plan = replace(plan, runs=list(_runs(pages, executions)))
    return plan


def _runs(pages: StatusPages, executions: Sequence[Json]) -> Iterator[StageRun]:
    """The runs of the stages of these executions.

    A server that has more stages than it keeps forgets those first that it did not have to run.
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
            yield from map(StageRun.of, runs)


def _key(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
