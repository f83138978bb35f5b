"""What a user of the machine can see of others: run as a program, by whoever looks.

Standard input: JSON with the words to look for, folders, and ports. Standard output: JSON with
what was found where, and how much was looked at. It needs nothing but Python.
"""

import json
import os
import socket
import struct
import sys
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen


def main() -> None:
    told = json.load(sys.stdin)
    places = dict(command_lines()) | dict(files(told["folders"]))
    places |= {f"port {port}{page}": text for port in told["ports"] for page, text in pages(port)}
    found = {place for place, text in places.items() for word in told["words"] if word in text}
    answers = {str(port): ask_for_a_block(port) for port in told["ports"]}
    seen = {
        kind: sum(place.startswith(kind) for place in places) for kind in ("/proc", "/", "port")
    }
    environments = [pid for pid in told["pids"] if readable(f"/proc/{pid}/environ")]
    told = {"found": sorted(found), "answers": answers, "seen": seen, "environ": environments}
    json.dump(told, sys.stdout)


def command_lines():
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield str(entry), entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def files(folders):
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                try:
                    yield str(path), path.read_bytes().decode("latin-1")
                except OSError:
                    continue


def pages(port):
    """What a web server on a port shows to anybody; nothing of a port that is none."""
    applications = "/api/v1/applications"
    for page in ("/environment/", "/jobs/", applications):
        text = page_of(port, page)
        if text is not None:
            yield page, text
        if text and page == applications:
            for application in json.loads(text):
                inner = f"{applications}/{application['id']}/environment"
                yield inner, page_of(port, inner) or ""


def page_of(port, page):
    try:
        with urlopen(f"http://127.0.0.1:{port}{page}", timeout=5) as answer:
            return answer.read().decode(errors="replace")
    except (OSError, ValueError, HTTPException):
        return None


def ask_for_a_block(port):
    """`given`, or why not, when a stranger asks Spark's transfer service for a broadcast."""
    names = [b"application", b"driver"]
    block = b"broadcast_0_piece0"
    body = b"\0" + b"".join(struct.pack(">I", len(n)) + n for n in names)
    body += struct.pack(">II", 1, len(block)) + block
    message = b"\x03" + struct.pack(">QI", 7, len(body)) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
            connection.sendall(struct.pack(">Q", len(message) + 8) + message)
            answer = connection.recv(4096)
    except OSError as error:
        return f"silent: {error}"
    kind = answer[8:9]
    if kind == b"\x04":
        return "given"
    return f"refused: {answer[21:].decode(errors='replace')}" if kind == b"\x05" else "other"


def readable(path):
    try:
        return bool(Path(path).read_bytes())
    except OSError:
        return False


if __name__ == "__main__":
    main()
