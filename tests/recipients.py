"""Real recipients for tests: a mail server and a web server, in threads of this process."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


class MailServer:
    """What arrived, oldest first."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.address = f"127.0.0.1:{free_port()}"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    def body(self, number: int = -1, kind: str = "plain") -> str:
        """The text of a mail, the last one by default."""
        part = self.mails[number].get_body((kind,))
        assert part is not None
        return part.get_content()


class WebServer:
    """What was posted, oldest first; `status` is what the next posts are answered with."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        self.url = ""

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.posts]


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """An SMTP server."""
    server = MailServer()
    host, _, port = server.address.partition(":")
    controller = Controller(server, hostname=host, port=int(port))
    controller.start()
    try:
        yield server
    finally:
        controller.stop()


@contextmanager
def web_server() -> Iterator[WebServer]:
    """An HTTP server."""
    seen = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if seen.status < 300:
                seen.posts.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(seen.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
