"""Sharp ETL's http sources as a query of addresses and a function in Python."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from logdriven_dagster.execution.events import WindowFailed
from tests.plugins.importers.conftest import NOW, Folder
from tests.plugins.importers.sharpetl.conftest import HEAD

DAY = HEAD.replace("timewindow", "timewindow\n    --  defaultStart=20220109")
REQUEST = """
    -- step=1
    -- source=http
    --  url=URL/days?start=${DATA_RANGE_START}&zone=+01:00&month=${month}
    -- target=temp
    --  tableName=response
"""
MONTH = """
    -- step=0
    -- source=temp
    -- target=variables
    select trunc('${DATA_RANGE_START}', 'MM') as `month`;
"""
PARSED = """
    -- step=2
    -- source=temp
    --  tableName=response
    -- target=hive
    --  dbName=ods
    --  tableName=days
    -- writeMode=append
    select value, '${DATA_RANGE_START}' as day from response;
"""


class Api(BaseHTTPRequestHandler):
    """Answers with JSON of the request: its path, parameters and body."""

    seen: ClassVar[list[str]] = []
    """The paths of all requests."""

    def do_GET(self) -> None:
        self.respond("")

    def do_POST(self) -> None:
        self.respond(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def respond(self, body: str) -> None:
        url = urlsplit(self.path)
        self.seen.append(url.path)
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        text = f"é {url.path} {given} {body}".replace('"', "'")
        self.send_response(503 if "broken" in url.path else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        answer = "é" if url.path == "/last" else f'{{"a": "{text}", "n": 1}}'
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_is_a_query_and_its_request_a_function(folder: Folder, brought: Any):
    told = brought(HEAD + MONTH + REQUEST + PARSED)
    address, request, _ = folder.values("tables/w.yaml")["steps"]
    assert address == {
        "step": "response_url",
        "sql": "SELECT concat('URL/days?start=${DATA_RANGE_START}&zone=+01:00&month=', "
        "(trunc('${DATA_RANGE_START}', 'MM'))) AS url",
    }
    assert request == {"step": "response", "python": "w_http.py:request_response"}
    assert "def request_response(response_url: DataFrame" in folder.text("tables/w_http.py")
    assert "w_http.py requests the address; review it" in str(told["notes"])


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("jsonPath=$.a[*]", "remove jsonPath"),
        ("splitBy=__", "remove splitBy"),
        ("connectionName=hr", "add them to HEADERS in the Python file"),
        ("url=http://a/b?token=tr0ub4dor4x", "url has a secret; write ${env:NAME}"),
        ("requestBody={}\n    --  jsonPath=$.b", "remove jsonPath"),
    ],
)
@pytest.mark.parametrize("target", ["temp\n    --  tableName=response", "variables"])
def test_other_requests_are_listed(
    folder: Folder, brought: Any, header: str, reason: str, target: str
):
    text = REQUEST.replace("month=${month}\n", f"\n    --  {header}\n")
    text = text.replace("temp\n    --  tableName=response", target)
    told = brought(HEAD + text + PARSED.replace("from response", "from `x`"), code=1)
    assert reason in told["untranslated"][0]["reason"]
    assert "tr0ub4dor4x" not in str(told) + folder.text("tables/w.yaml")


OTHERS = """
    -- step=3
    -- target=temp
    --  tableName=names
    select 'x y' as name union all select 'z';

    -- step=4
    -- source=http
    --  url=URL/get?name=${name}
    -- target=temp
    --  tableName=each
    -- loopOver=names

    -- step=5
    -- source=http
    --  url=URL/body
    --  httpMethod=post
    --  requestBody={'d': 'ü'}
    -- target=temp
    --  tableName=posted

    -- step=6
    -- source=http
    --  url=URL/last
    --  fieldName=text
    -- target=variables

    -- step=7
    -- source=temp
    -- target=hive
    --  dbName=ods
    --  tableName=days
    -- writeMode=append
    select answer.*, '${text}' as last
    from (select from_json(value, 'a STRING, n INT') as answer from (
      select * from response union all select * from each union all select * from posted));
"""


def test_responses_are_rows(folder: Folder, brought: Any, spark: Any, api: str):
    folder.spark = spark
    brought((DAY + MONTH + REQUEST + OTHERS).replace("URL", api))
    Api.seen.clear()
    folder.run_all()
    assert sorted(Api.seen) == ["/body", "/days", "/get", "/get", "/last"]
    start = "'start': '2022-01-09 00:00:00', 'zone': '+01:00', 'month': '2022-01-01'"
    assert sorted(folder.rows("w")) == [
        ("é /body {} {'d': 'ü'}", 1, "é"),
        (f"é /days {{{start}}} ", 1, "é"),
        ("é /get {'name': 'x y'} ", 1, "é"),
        ("é /get {'name': 'z'} ", 1, "é"),
    ]
    folder.write("tables/w.yaml", folder.text("tables/w.yaml").replace("/days", "/broken"))
    ended = folder.catch_up(now=NOW.replace(day=11), tables=("w",))
    (failed,) = [event for event in ended if isinstance(event, WindowFailed)]
    assert f"GET {api}/broken: status 503" in str(failed.error)
