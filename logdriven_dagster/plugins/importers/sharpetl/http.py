"""Sharp ETL's http sources: a query of addresses, and a function in Python that requests them.

The query has the variables of the address, so that the function needs none. Each response is a row
with its text, which later steps parse.
"""

from dataclasses import dataclass, field

from logdriven_dagster.config.checking.secret_texts import find_secrets
from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.sharpetl.context import Context
from logdriven_dagster.plugins.importers.sharpetl.parser import End

_KNOWN = frozenset(
    {"url", "httpMethod", "requestBody", "fieldName", "timeout", "jsonPath"}
    | {"splitBy", "connectionName"}
)
_PARSED = (
    "parse the text in the query of the next step, as in from_json(value, 'a STRING'); remove "
)
_FILE = '''"""Requests of Sharp ETL's http sources."""

from urllib.parse import quote_plus

import requests
from pyspark.sql import DataFrame, SparkSession

TIMEOUT = (10, 300)
"""Seconds to connect, and to wait for the next bytes of a response."""
HEADERS: dict[str, str] = {}
"""Headers of each request; read secrets from the environment, as in os.environ["TOKEN"]."""

'''
_FUNCTION = '''
def {name}({addresses}: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a row with the response to each address."""
    texts = [(_request("{method}", row.url, {body}),) for row in {addresses}.collect()]
    return spark.createDataFrame(texts, "`{column}` STRING")

'''
_END = '''
def _request(method: str, url: str, body: str | None = None) -> str:
    """Return the text of a response.

    Raises ConnectionError, after which `retries` of the table repeats the attempt, for the status
    429 or 5xx, and OSError for any other but 2xx.
    """
    base, _, query = url.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, _, value in pairs)
    headers = HEADERS if body is None else {"Content-Type": "application/json"} | HEADERS
    response = requests.request(
        method,
        f"{base}?{encoded}" if query else base,
        data=None if body is None else body.encode(),
        headers=headers,
        timeout=TIMEOUT,
        allow_redirects=method == "GET",
    )
    status = response.status_code
    if status // 100 != 2:
        error = ConnectionError if status == 429 or status >= 500 else OSError
        raise error(f"{method} {base}: status {status} {response.reason}")
    return response.content.decode(response.encoding or "utf-8")
'''


@dataclass(slots=True)
class Requests:
    """The Python file with the functions of a table's http sources."""

    table: str
    functions: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.functions)

    def __str__(self) -> str:
        return _FILE + "\n".join(self.functions) + _END

    @property
    def file(self) -> str:
        """The name of the file, next to that of the table."""
        return f"{self.table.rpartition('.')[2]}_http.py"

    def add(self, end: End, name: str, addresses: str) -> str:
        """Add the function of a step.

        `addresses` is the step with the columns `url` and `body`. Returns the function with its
        file, as in the `python` of a step.
        """
        function = f"request_{name}"
        text = _FUNCTION.format(
            name=function,
            addresses=addresses,
            method=_method(end),
            body="row.body" if _has_body(end) else "None",
            column=end.get("fieldName", "value"),
        )
        self.functions.append(text)
        return f"{self.file}:{function}"


def select_address(context: Context, end: End) -> str:
    """Return a query of the address with its variables.

    Raises UntranslatableError for parts of a request that the function would not send.
    """
    context.leave_unknown(end.headers.values(), _KNOWN, "source http")
    if not end.get("url"):
        raise UntranslatableError("it has no url")
    for key in ("jsonPath", "splitBy"):
        if end.get(key, "$") not in ("$", ""):
            raise UntranslatableError(f"{_PARSED}{key}")
    if end.get("connectionName"):
        raise UntranslatableError(
            f"the headers and the proxy of connection {end.get('connectionName')} are in "
            "application.properties; remove connectionName, and add them to HEADERS in the Python "
            "file"
        )
    for key in ("url", "requestBody"):
        if find_secrets(end.get(key)):
            raise UntranslatableError(f"{key} has a secret; write ${{env:NAME}} instead")
    if "timeout" in end.headers:
        reason = "Sharp ETL ignores it; set TIMEOUT in the Python file"
        context.note(end.headers["timeout"].line, f"timeout={end.get('timeout')}", reason)
    columns = [f"{context.variables.in_value(end.get('url'))} AS url"]
    if _has_body(end):
        columns.append(f"{context.variables.in_value(end.get('requestBody'))} AS body")
    return f"SELECT {', '.join(columns)}"


def _method(end: End) -> str:
    return "GET" if end.get("httpMethod", "GET").upper() == "GET" else "POST"


def _has_body(end: End) -> bool:
    return _method(end) == "POST" and bool(end.get("requestBody"))
