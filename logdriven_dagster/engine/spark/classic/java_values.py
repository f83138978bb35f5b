"""Conversion of Java and Scala values of a classic session, in one call instead of one per part."""

import gzip
import json
from functools import lru_cache
from typing import Any

from logdriven_dagster.engine.spark.classic import internals


def python_value(value: Any) -> Any:
    """Return the content of a JVM object, in the JSON form of Spark's status pages.

    It is transferred in compressed form: if an answer exceeds 8 KB, Py4J sends the rest only after
    TCP has acknowledged the beginning, 40 ms later.
    """
    writer, new_bytes, compressing = _tools(internals.machine())
    held = new_bytes()
    writer.writeValue(compressing(held), value)  # closes the stream
    return json.loads(gzip.decompress(held.toByteArray()))


@lru_cache(maxsize=1)
def _tools(machine: Any) -> tuple[Any, Any, Any]:
    jackson = machine.com.fasterxml.jackson
    writer = jackson.databind.ObjectMapper()
    writer.registerModule(jackson.module.scala.DefaultScalaModule())
    return writer, machine.java.io.ByteArrayOutputStream, machine.java.util.zip.GZIPOutputStream
