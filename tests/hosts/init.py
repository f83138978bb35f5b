"""The first process of a host: it arranges what the host sees, and ends those that have died.

`init.py NAME DISK HOSTS_FILE FOLDER…`, in new namespaces; the folders become memory of its own.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

_DIE_WITH_PARENT = 1


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main() -> None:
    name, disk, hosts_file, *memory = sys.argv[1:]
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    socket.sethostname(name)
    mount("--make-rprivate", "/")
    mount("--bind", disk, "/srv")
    mount("--bind", hosts_file, "/etc/hosts")
    mount("-o", "remount,bind,ro", "/")
    for folder in memory:
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
