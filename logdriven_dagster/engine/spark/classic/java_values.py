"""Values of Java and Scala in a classic session, fetched in one call instead of one per part."""

import gzip
import json
from functools import lru_cache
from typing import Any

from logdriven_dagster.engine.spark.classic import internals


def python_value(value: Any) -> Any:
    """What an object of the JVM holds, as Spark's own pages tell it in JSON.

    It comes compressed: of an answer beyond 8 KB Py4J sends the rest when TCP has acknowledged the
    beginning, 40 ms later.
    """
    writer, new_bytes, compressing = _tools(internals.machine())
    held = new_bytes()
    writer.writeValue(compressing(held), value)  # which closes the stream
    return json.loads(gzip.decompress(held.toByteArray()))


@lru_cache(maxsize=1)
def _tools(machine: Any) -> tuple[Any, Any, Any]:
    jackson = machine.com.fasterxml.jackson
    writer = jackson.databind.ObjectMapper()
    writer.registerModule(jackson.module.scala.DefaultScalaModule())
    return writer, machine.java.io.ByteArrayOutputStream, machine.java.util.zip.GZIPOutputStream
