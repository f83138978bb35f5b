"""A receiver of events and spans as a process of its own: it keeps all, or never answers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if sys.argv[2] == "deaf":
            time.sleep(600)
        with Path(sys.argv[1]).open("ab") as kept:
            kept.write(body.hex().encode() + b"\\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
"""


@dataclass(frozen=True)
class Receiver:
    """Where it listens, and what it got."""

    url: str
    kept: Path

    @property
    def bodies(self) -> list[bytes]:
        return [bytes.fromhex(line) for line in self.kept.read_text().splitlines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]


@contextmanager
def receiver(folder: Path, how: str = "listens") -> Iterator[Receiver]:
    """Run one; `deaf` ones take a connection and never answer."""
    kept = folder / "events"
    kept.touch()
    command = [sys.executable, "-c", PROGRAM, str(kept), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Receiver(f"http://127.0.0.1:{process.stdout.readline().strip()}", kept)
        process.kill()
