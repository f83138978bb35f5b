"""A network that can be cut: a forwarder between runners and a database server."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.2
_CHUNK = 65_536


class Wire:
    """Forwards connections of a local port to another one; cut, it keeps silent and holds them.

    Nobody is told: what was sent meanwhile arrives when the wire is whole again, as it does after a
    route that was lost for some seconds.
    """

    def __init__(self, port: int) -> None:
        self._to, self._whole, self._over = port, threading.Event(), threading.Event()
        self._whole.set()
        self._servers: list[socket.socket] = []
        self._deaf: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_LOOK_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing through in either direction."""
        self._whole.clear()

    def mend(self) -> None:
        """Let through what waits, and all that follows."""
        self._whole.set()

    def deafen(self) -> None:
        """Let no answer through any more on the connections that are open."""
        self._deaf = set(self._servers)

    def close(self) -> None:
        """End all connections."""
        self._over.set()
        self._whole.set()

    def _accept(self) -> None:
        with self._listener:
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    near, _ = self._listener.accept()
                    near.settimeout(None)
                    threading.Thread(target=self._connect, args=[near], daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        self._servers.append(far)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=[source, sink], daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._over.is_set() and (data := source.recv(_CHUNK)):
                self._whole.wait()
                if source not in self._deaf:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    """A wire that is taken away at the end of the block."""
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
