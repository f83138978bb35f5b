"""Java's remarks about itself, which are kept from the lines that people read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_NOISE = re.compile(
    rb"WARNING: Using incubator modules"
    rb"|Picked up (_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS"
    rb"|(OpenJDK|Java HotSpot)\S* .* warning:"
    # Java 24 and newer, of what Spark and its libraries do.
    rb"|WARNING: (A terminally deprecated|A restricted) method in .* has been called"
    rb"|WARNING: \S+ has been called by "
    rb"|WARNING: (Please consider reporting this|Use --enable-native-access)"
    rb"|WARNING: (Restricted methods will be blocked|\S+ will be removed) in a future release"
)


@contextmanager
def java_noise_hidden() -> Iterator[None]:
    """Give every process that is started inside a standard error without Java's remarks.

    All other lines go on to where standard error led before, for the life of the processes.
    """
    try:
        before = os.dup(2)
    except OSError:  # it is closed: nobody reads it
        yield
        return
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    Thread(target=_pass_on, args=(reader, before), name="java-noise", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(before, 2)


def _pass_on(reader: int, before: int) -> None:
    with os.fdopen(reader, "rb") as lines, os.fdopen(before, "wb", buffering=0) as shown:
        for line in lines:
            if not _NOISE.match(line):
                shown.write(line)
