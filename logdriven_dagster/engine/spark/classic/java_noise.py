"""Filter for Java's warnings about itself, which are removed from standard error."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_NOISE = re.compile(
    rb"WARNING: Using incubator modules"
    rb"|Picked up (_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS"
    rb"|(OpenJDK|Java HotSpot)\S* .* warning:"
    # Java 24 and newer, about methods that Spark and its libraries call.
    rb"|WARNING: (A terminally deprecated|A restricted) method in .* has been called"
    rb"|WARNING: \S+ has been called by "
    rb"|WARNING: (Please consider reporting this|Use --enable-native-access)"
    rb"|WARNING: (Restricted methods will be blocked|\S+ will be removed) in a future release"
)


@contextmanager
def java_noise_hidden() -> Iterator[None]:
    """Give each process that is started in this block a standard error without Java's warnings.

    All other lines go to the original standard error, as long as the processes live.
    """
    try:
        before = os.dup(2)
    except OSError:  # it is closed, so no one reads it
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
