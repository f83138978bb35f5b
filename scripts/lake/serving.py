"""An HTTP server of the tests: it answers by operation, counts requests, and fails when told to.

Whoever has no handle of the process uses paths: `GET /_requests` and `GET /_met` answer counts,
`DELETE` forgets them; `PUT /_faults` takes a JSON list of `faults.Fault` as those that are to come.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from scripts.lake.faults import AFTER, Fault, Faults


@dataclass
class Request:
    """A request as it came."""

    method: str
    raw_path: str
    raw_query: str
    headers: Any
    body: bytes

    @property
    def path(self) -> str:
        return unquote(self.raw_path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.raw_query, keep_blank_values=True))


@dataclass
class Answer:
    """What is answered; of an open file only `length` bytes from where it stands."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    file: BinaryIO | None = None
    length: int | None = None


class Handler(BaseHTTPRequestHandler):
    """Does what a server's `service` says, unless a fault comes between."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def _take(self) -> None:
        split = urlsplit(self.path)
        request = Request(self.command, split.path, split.query, self.headers, self._body())
        if split.path.startswith("/_"):
            answer: Answer | None = _administer(self.server.faults, request)
        else:
            answer = self.server.answer(request)
        if answer:
            self._send(answer)
        else:
            self._hang_up()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _take  # noqa: N815 - names of the library

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, answer: Answer) -> None:
        length = len(answer.body) if answer.length is None else answer.length
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status not in {204, 304}:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.file.read(length) if answer.file else answer.body)
        if answer.file:
            answer.file.close()

    def log_message(self, *_: object) -> None:
        """Keep standard error for what matters."""


def _administer(faults: Faults, request: Request) -> Answer:
    if request.path == "/_faults":
        faults.plan(*(Fault(**each) for each in json.loads(request.body or b"[]")))
        return Answer(204)
    if request.method == "DELETE":
        faults.forget()
        return Answer(204)
    counts = faults.met if request.path == "/_met" else faults.requests
    return Answer(200, json.dumps(counts).encode(), {"Content-Type": "application/json"})


class Server(ThreadingHTTPServer):
    """A server in this process; `service` has `operation`, `answer` and `failure`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, service: Any, host: str, port: int) -> None:
        self.service = service
        self.faults = Faults()
        super().__init__((host, port), Handler)

    def answer(self, request: Request) -> Answer | None:
        """What the service says, or what a fault makes of it; None is silence."""
        operation = self.service.operation(request)
        fault = self.faults.meet(operation, request.path)
        if fault and fault.kind == "hang":
            time.sleep(fault.seconds)
        elif fault and fault.kind not in AFTER:
            return self._failure(fault)
        answer = self.service.answer(operation, request)
        return self._failure(fault) if fault and fault.kind in AFTER else answer

    def _failure(self, fault: Fault) -> Answer | None:
        status = fault.kind.removeprefix("late-")
        return self.service.failure(int(status)) if status.isdigit() else None

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error of the server."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(service: Any, host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    """A server that runs in a thread of this process."""
    server = Server(service, host, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve(service: Any, host: str, port: int) -> None:
    """Serve until the process ends; the address is printed as soon as it answers."""
    server = Server(service, host, port)
    print(server.url, flush=True)
    server.serve_forever()
