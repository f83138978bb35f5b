"""The newcomer's test: ways to break a project, each with the whole message that tells of it.

A message names the place, the problem and the fix, in words that need no knowledge of our code.
"""
# ruff: noqa: E501 - whole messages, each in a line

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from logdriven_dagster.config import load_examined_project
from logdriven_dagster.config.models.jobs import MaintenanceJob, StandardJob
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.wording import convert_validation_errors, find_ambiguities
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import InvalidProjectError

PROJECT = """\
project: shop
timezone: UTC
connections:
  crm: {url: 'sqlite:///crm.db'}
"""
TABLE = """\
table: ods.orders
description: One row per order.
period: 1 day
default_start: 2022-01-01
depends_on: []
steps:
  - step: load
    source:
      type: csv
      path: data/orders.csv
      columns: id INT
    target: {type: iceberg}
"""
JOB = "job: nightly\ntables: [ods.orders]\n"
FILES = {"logdriven.yaml": PROJECT, "tables/orders.yaml": TABLE}
DESCRIPTION = "description: One row per order."
SOURCE = "    source:\n      type: csv\n      path: data/orders.csv\n      columns: id INT\n"
STEPS = TABLE[TABLE.index("steps:") :]


def report(folder: Path, files: dict[str, str | bytes]) -> str:
    """What `logdriven validate` says of the project with these files; nothing if it is valid."""
    for name, content in {**FILES, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        load_examined_project(folder)
    except InvalidProjectError as error:
        return str(error).replace(f"{folder}/", "")
    return ""


IN_A_TABLE = {
    ("period:", "perod:"): (
        "1: period: missing; add `period: 1 day`\n"
        "3: perod: unknown field; did you mean 'period'?"
    ),
    ("path:", "pth:"): (
        "8: steps[0].source.path: missing; add `path: data/orders.csv`\n"
        "10: steps[0].source.pth: unknown field; did you mean 'path'?"
    ),
    ("type: iceberg", "type: parquet, path: 'ftp://lake/t'"): "12: steps[0].target.path: must be a local folder, a folder of a mounted file system, or a folder of an object store (s3://, gs://, abfss://); ftp:// is not supported",
    ("type: iceberg", "type: parquet, path: '${lake}/t'"): "12: steps[0].target.path: unknown variable ${lake}; a path can use the variables of logdriven.yaml and ${env:NAME}",
    ("type: csv", "type: cvs"): "8: steps[0].source: unknown type 'cvs'; did you mean 'csv'?",
    ("      type: csv\n", ""): "8: steps[0].source: no type given; add `type: …`, which is one of parquet, orc, text, csv, json, jdbc, table, iceberg, avro, delta, excel, fixed_width, kafka, xml",
    ("columns: id INT", "columns: id INT\n      window_column: {format: yyyyMMdd}"): "12: steps[0].source.window_column.name: missing; add `name: ordered_at`",
    ("type: csv", "type: [csv]"): "8: steps[0].source: unknown type ['csv']; did you mean 'csv'?",
    ("depends_on: []", "depends_on: ods.x"): "5: depends_on: must be a list, such as [ods.x], not 'ods.x'",
    ("depends_on: []", "depends_on: {table: ods.x}"): "5: depends_on: must be a list, such as [ods.orders], not {table: ods.x}",
    ("description:", "owners: me\ndescription:"): "2: owners: must be a list, such as [me], not 'me'",
    ("description:", "tags: [a]\ndescription:"): "2: tags: must be names and values, such as {name: value}, not [a]",
    ("description:", "tags: {a: 1}\ndescription:"): '2: tags.a: must be text, not 1; write "1" in quotes if it is text',
    (STEPS, "steps: {step: load}\n"): "6: steps: must be a list, such as [{step: load, …}], not {step: load}",
    (STEPS, "steps: []\n"): "6: steps: must not be empty; write a list, such as [{step: load, …}]",
    (STEPS, "steps:\n"): "6: steps: must be a list, such as [{step: load, …}], but it is empty",
    (STEPS, "steps: load\n"): "6: steps: must be a list, such as [{step: load, …}], not 'load'",
    (STEPS, "steps: [load]\n"): "6: steps[0]: must be fields, such as {step: load}, not 'load'",
    (DESCRIPTION, "description: 5"): '2: description: must be text, not 5; write "5" in quotes if it is text',
    (DESCRIPTION, "description: no"): '2: description: YAML reads no as false; write "no" in quotes',
    (DESCRIPTION, "description: [a]"): "2: description: must be text, not [a]",
    ("table: ods.orders", "table: 12"): '1: table: must be text, not 12; write "12" in quotes if it is text',
    ("table: ods.orders", "table: ods/orders"): "1: table: 'ods/orders' is not a table name; use letters, digits and underscores between dots, such as ods.orders",
    ("table: ods.orders", "table:"): "1: table: must be text, but it is empty",
    ("table: ods.orders\n", ""): "1: table: missing; add `table: ods.orders`",
    ("table: ods.orders", "table: on"): '1: table: YAML reads on as true; write "on" in quotes',
    ("table: ods.orders", "table: 1.5"): '1: table: must be text, not 1.5; write "1.5" in quotes if it is text',
    ("table: ods.orders", "table: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"): "1: table: must be at most 100 characters, not 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa …",
    ("step: load", "step: on"): '7: steps[0].step: YAML reads on as true; write "on" in quotes',
    ("step: load", "step: 012"): "7: steps[0].step: must be a name of letters, digits and underscores that begins with a letter, not '012'",
    ("step: load", "step: 1:30"): "7: steps[0].step: must be a name of letters, digits and underscores that begins with a letter, not '1:30'",
    ("step: load", "step: 2013-01-01"): "7: steps[0].step: must be a name of letters, digits and underscores that begins with a letter, not '2013-01-01'",
    ("step: load", "step: load it"): "7: steps[0].step: must be a name of letters, digits and underscores that begins with a letter, not 'load it'",
    ("step: load", "step: ~"): "7: steps[0].step: must be text, but it is empty",
    ("period: 1 day", "period: daily"): "3: period: 'daily' is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period: 0"): "3: period: a period must be at least one minute",
    ("period: 1 day", "period: -5"): "3: period: -5 is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period: yes"): "3: period: 'yes' is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period: 1:30"): "3: period: '1:30' is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period: 1.5"): "3: period: 1.5 is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period: [1 day]"): "3: period: [1 day] is not a period, such as 1 day or 15 min",
    ("period: 1 day", "period:"): "3: period: an empty value is not a period, such as 1 day or 15 min",
    ("period: 1 day\n", ""): "1: period: missing; add `period: 1 day`",
    ("2022-01-01", "2022-13-01"): "4: default_start: '2022-13-01' is not a date or time, such as 2013-01-01 or 2013-01-01 06:00",
    ("2022-01-01", "yesterday"): "4: default_start: 'yesterday' is not a date or time, such as 2013-01-01 or 2013-01-01 06:00",
    ("2022-01-01", "yes"): "4: default_start: 'yes' is not a date or time, such as 2013-01-01 or 2013-01-01 06:00",
    ("default_start: 2022-01-01\n", ""): "1: default_start: a table needs a first window; add `default_start: 2022-01-01`",
    ("2022-01-01", "2022.5"): "4: default_start: must be a date or time, such as 2013-01-01 or 2013-01-01 06:00",
    ("description:", "end: 2021-01-01\ndescription:"): "2: end: must be later than default_start",
    ("period: 1 day\ndefault_start: 2022-01-01", "period: 1 month\ndefault_start: 2022-01-31"): "4: default_start: a period of months must start on day 1 to 28",
    ("description:", "ordered: perhaps\ndescription:"): "2: ordered: must be true or false, not 'perhaps'",
    ("description:", "ordered: 3\ndescription:"): "2: ordered: must be true or false, not 3",
    ("description:", "retries: many\ndescription:"): "2: retries: must be a whole number, not 'many'",
    ("description:", "retries: 1.5\ndescription:"): "2: retries: must be a whole number, not 1.5",
    ("description:", "retries: -1\ndescription:"): "2: retries: must be at least 0, not -1",
    ("description:", "priority: 1000\ndescription:"): "2: priority: must be at most 100, not 1000",
    ("description:", "retries: yes\ndescription:"): "2: retries: must be a whole number, not 'yes'",
    ("description:", "catch_up: newest\ndescription:"): "2: catch_up: must be all, once or latest_only, not 'newest'",
    ("description:", "on_running: never\ndescription:"): "2: on_running: must be skip, fail or replace, not 'never'",
    ("description:", "batch_size: 0\ndescription:"): "2: batch_size: must be at least 1, or all or auto, not 0",
    ("description:", "batch_size: some\ndescription:"): "2: batch_size: must be a whole number, or all or auto, not 'some'",
    ("description:", "catch_up: [all]\ndescription:"): "2: catch_up: must be all, once or latest_only, not [all]",
    ("description:", "delay: soon\ndescription:"): "2: delay: 'soon' is not a period, such as 1 day or 15 min",
    ("description:", "delay: 1 month\ndescription:"): "2: delay: '1 month' has no fixed length; use days, hours or minutes",
    ("description:", "delay: no\ndescription:"): "2: delay: 'no' is not a period, such as 1 day or 15 min",
    ("description:", "delay: [1]\ndescription:"): "2: delay: must be a length of time, such as 1 day or 15 min, not [1]",
    ("description:", "variables: [a]\ndescription:"): "2: variables: must be names and values, such as {name: value}, not [a]",
    ("description:", "variables: {a: [1]}\ndescription:"): "2: variables.a: must be text, a number, or true or false, not [1]",
    ("description:", "variables: {a: }\ndescription:"): "2: variables.a: must be text, a number, or true or false, but it is empty",
    ("description:", "variables: {on: 1, 5: x}\ndescription:"): '2: variables[5]: must be text, not 5; write "5" in quotes if it is text',
    ("description:", "variables: {a: 1:30}\ndescription:"): '2: variables.a: YAML reads 1:30 as 90; write "1:30" in quotes, or 90 if you mean that',
    ("description:", "variables: {a: 012}\ndescription:"): '2: variables.a: YAML reads 012 as 10; write "012" in quotes, or 10 if you mean that',
    ("description:", "variables: {country: NO}\ndescription:"): '2: variables.country: YAML reads NO as false; write "NO" in quotes, or false if you mean that',
    ("{type: iceberg}", "{type: iceberg, mode: upsert, key: id}"): "12: steps[0].target.key: must be a list, such as [id], not 'id'",
    ("{type: iceberg}", "{type: iceberg, mode: upsert}"): "12: steps[0].target: mode upsert needs key, the columns of a row's key",
    ("{type: iceberg}", "{type: iceberg, mode: replace}"): "12: steps[0].target.mode: must be append, overwrite_window, overwrite, upsert or history, not 'replace'",
    ("{type: iceberg}", "iceberg"): "12: steps[0].target: must be fields, such as {type: iceberg}, not 'iceberg'",
    ("    target: {type: iceberg}\n", ""): "1: no step has a target; add `target: {type: iceberg}` to the last one",
    (SOURCE, "    source: [csv]\n"): "8: steps[0].source: must be fields, such as {type: parquet}, not [csv]",
    (SOURCE, "    source: {type: json, path: a, columns: 'm MAP<INT, INT>'}\n"): "8: steps[0].source.columns: the keys of JSON objects are texts, not INT; write MAP<STRING, …>, and CAST the keys in the query",
    (SOURCE, "    source: {type: json, path: a, columns: 'm MAP<STRING, INT>'}\n"): "",
    (SOURCE, ""): "7: steps[0]: a step needs a source, sql, sql_file or python",
    ("    target", "    sql: SELECT 1\n    python: a.py:b\n    target"): "7: steps[0]: give only one of sql, sql_file and python",
    ("path: data/orders.csv", "path:"): "10: steps[0].source.path: must be text, but it is empty",
    ("path: data/orders.csv", "path: 5"): '10: steps[0].source.path: must be text, not 5; write "5" in quotes if it is text',
    ("path: data/orders.csv", "path: a\n      header: maybe"): "11: steps[0].source.header: must be true or false, not 'maybe'",
    ("path: data/orders.csv", "path: a\n      options: {mode: [x]}"): "11: steps[0].source.options.mode: must be text, a number, or true or false, not [x]",
    ("path: data/orders.csv", "path: a\n      options: {mode: }"): "11: steps[0].source.options.mode: must be text, a number, or true or false, but it is empty",
    ("path: data/orders.csv", "path: a\n      options: [mode]"): "11: steps[0].source.options: must be names and values, such as {name: value}, not [mode]",
    ("columns: id INT", "columns: id INT, page TEXT"): "11: steps[0].source.columns: column page: TEXT is not a type of Spark; write STRING",
    ("columns: id INT", "columns: id INT, ID INT"): "11: steps[0].source.columns: column ID is there twice; case does not matter; remove one of them",
    ("columns: id INT", "columns: id IMT"): "11: steps[0].source.columns: column id: IMT is not a type of Spark; write INT",
    ("columns: id INT", "columns: id"): "11: steps[0].source.columns: column id has no type; write id STRING, or another type",
    ("columns: id INT", "columns: name VARCHAR"): "11: steps[0].source.columns: column name: Spark cannot read VARCHAR from files; write STRING",
    ("columns: id INT", "columns: 'id INT, at STRUCT<time: INT, x: TIME(6)>'"): "11: steps[0].source.columns: column at: Spark cannot read TIME from files; write STRING for text, BIGINT for Parquet",
    ("columns: id INT", "columns: 'id INT, at TIMESTAMP, `a, b` STRUCT<x: INT, y: DECIMAL(9, 2)>'\n      window_column: AT"): "",
    ("columns: id INT", "columns: id INT\n      window_column: id"): "12: steps[0].source.window_column: window_column id is int, which is not a time; write window_column: {name: id, unit: epoch_s} (or epoch_ms, epoch_us, epoch_ns), or {name: id, format: yyyyMMdd} for numbers such as 20220131",
    ("columns: id INT", "columns: id INT\n      window_column: {name: id, unit: epoch_s}"): "",
    ("columns: id INT", "columns: '`id`: DECIMAL(20, 0)'\n      window_column: {name: ID, format: yyyyMMdd}"): "12: steps[0].source.window_column: decimal of a text is not a number; write BIGINT or DOUBLE in columns",
    ("columns: id INT", "columns: '`id`: BIGINT NOT NULL'\n      window_column: {name: ID, format: yyyyMMdd}"): "",
    ("columns: id INT", "columns: id STRING\n      window_column: {name: id, unit: epoch_s}"): "12: steps[0].source.window_column: window_column id is string; unit: epoch_s is only for numbers: read the column as BIGINT, or give the format of its texts",
    ("columns: id INT", "columns: id INT\n      window_column: {name: ids, unit: epoch_s}"): "12: steps[0].source.window_column: columns does not have ids; did you mean 'id'?",
    ("columns: id INT", "columns: id INT\n      window_column: {name: id, units: epoch_s}"): "12: steps[0].source.window_column.units: unknown field; did you mean 'unit'?",
    ("columns: id INT", "columns: id INT\n      window_column: {name: id, unit: ms}"): "12: steps[0].source.window_column.unit: must be epoch_s, epoch_ms, epoch_us or epoch_ns, not 'ms'",
    ("columns: id INT", "columns: id INT\n      window_column: {name: id}"): "12: steps[0].source.window_column: give either unit or format; for timestamps and dates, write only the name",
    ("columns: id INT", "columns: id INT\n      window_column: 5"): '12: steps[0].source.window_column: must be text, not 5; write "5" in quotes if it is text',
    ("columns: id INT", "columns: id INT\n      window_column: {name: id, format: ddMMyyyy}"): "12: steps[0].source.window_column.format: ddMMyyyy does not sort by time, or has other parts than yyyy, MM, dd, HH, mm, ss and S, in this order from the year on; convert it to a timestamp first, in a view of the database or in an upstream table",
    ("type: iceberg", "type: iceberg, window_column: {name: id, unit: epoch_s}"): "12: steps[0].target.window_column: must be the name of a column of timestamps or dates; compute one in sql, as in SELECT *, timestamp_millis(ts) AS at FROM source",
    ("columns: id INT", "columns: id INT\n      window_column: {name: id, format: yyyyMM}"): "1: step load: source.window_column: values of yyyyMM show months, but windows begin at days: period 1 day from 2022-01-01 00:00:00; make the period longer, or name a column with finer times",
    ("columns: id INT", "columns: id INT, at TIMESTAMP\n      window_column: att"): "12: steps[0].source.window_column: columns does not have att; did you mean 'at'?",
    ("columns: id INT", "columns: [id INT]"): "11: steps[0].source.columns: must be text, not [id INT]",
    ("    target", "    python: transform\n    target"): "12: steps[0].python: must be file.py:function or package.module:function, not 'transform'",
    ("    target", "    sql: [SELECT 1]\n    target"): "12: steps[0].sql: must be text, not [SELECT 1]",
    ("    target", "    sql: 1\n    target"): '12: steps[0].sql: must be text, not 1; write "1" in quotes if it is text',
    (SOURCE[18:-1], "type: jdbc\n      connection: cmr\n      table: t"): "10: steps[0].source.connection: unknown connection 'cmr'; did you mean 'crm'?",
    (SOURCE[18:-1], "type: jdbc\n      connection: crm"): "8: steps[0].source: give either table or query",
    ("depends_on: []", "depends_on: [ods.orders]"): "5: depends_on: a cycle of dependencies: ods.orders → ods.orders",
    ("depends_on: []", "depends_on: [ods.order]"): "5: depends_on[0]: unknown table 'ods.order'; did you mean 'ods.orders'?; or write {table: ods.order, managed: false} if another system manages it",
    ("depends_on: []", "depends_on: [5]"): "5: depends_on[0]: must be fields, such as {table: ods.orders}, not 5",
    ("depends_on: []", "depends_on: [{table: ods.x, managed: false, window: last}]"): "5: depends_on[0].window: must be overlapping, ended, newest or none, not 'last'",
    ("depends_on: []", "depends_on: [{table: x, managed: false}, {table: x, managed: false}]"): "5: depends_on: x is listed twice; remove one",
    ("depends_on: []", "depends_on: [{table: x, managed: false, cut_pattern: '['}]"): "5: depends_on[0].cut_pattern: not a regular expression: unterminated character set at position 0",
    ("depends_on: []", "depends_on: [{asset: raw/x, window: ended}]"): "5: depends_on[0].window: must be overlapping or any, not 'ended'",
    ("depends_on: []", "depends_on: [{asset: raw/x, read: all}]"): "5: depends_on[0].read: unknown field; allowed: asset, period, timezone, window",
    ("depends_on: []", "depends_on: [{asset: /raw}]"): "5: depends_on[0].asset: must be the parts of a key with slashes between them, such as raw/events, not '/raw'",
    ("depends_on: []", "depends_on: [{asset: ods/orders}]"): "5: depends_on[0]: asset ods/orders is the table ods.orders of this project; write {table: ods.orders}",
    ("depends_on: []", "depends_on: [{asset: raw/x}, {asset: raw/x}]"): "5: depends_on: asset raw/x is listed twice; remove one",
    ("depends_on: []", "depends_on: [{asset: raw/x, timezone: Mars}]"): "5: depends_on[0].timezone: 'Mars' is not a time zone, such as UTC or Europe/Berlin",
    ("depends_on: []", "depends_on: [{asset: 5}]"): '5: depends_on[0].asset: must be text, not 5; write "5" in quotes if it is text',
    ("depends_on: []", "depends_on: [~]"): "5: depends_on[0]: must be fields, such as {table: ods.orders}, but it is empty",
    ("depends_on: []", "depends_on: [on]"): '5: depends_on[0]: YAML reads on as true; write "on" in quotes',
    ("    source:", "\tsource:"): "8: a tab indents this line; indent with spaces",
    ("steps:\n  - step: load", "steps:\n\t- step: load"): "7: a tab indents this line; indent with spaces",
    ("    source:", "     source:"): "8: a colon is not allowed here; check the indentation, or put the text in quotes",
    ("  - step: load\n    source:", "  - step: load\n  source:"): "8: this line does not fit those before it; indent fields of the same level by the same number of spaces, and close quotes",
    ("period: 1 day", "period: 1 day\nperiod: 2 days"): "4: period: given twice, first in line 3; remove one of them",
    (DESCRIPTION, "description: One: row"): "2: a colon is not allowed here; check the indentation, or put the text in quotes",
    (DESCRIPTION, "description: 'it's"): "2: this line does not fit those before it; indent fields of the same level by the same number of spaces, and close quotes",
    (DESCRIPTION, "description: @x"): "2: a text cannot begin with this character; put the text in quotes",
    (DESCRIPTION, "description: %x"): "2: a text cannot begin with this character; put the text in quotes",
    ("{type: iceberg}", "{type: iceberg"): "12: a bracket is not closed, or a comma is missing",
    (DESCRIPTION, "description: *x"): "2: a text cannot begin with this character; put the text in quotes",
    (DESCRIPTION, "description: !x y"): "2: a text cannot begin with !; put the text in quotes",
    (DESCRIPTION, "---\nx: 1"): "2: `---` begins a second document; write a separate file for each",
    ("period: 1 day", "period 1 day"): "3: a colon and a space are missing after the field; write `field: value`",
    ("period: 1 day", "period:1 day"): "3: a colon and a space are missing after the field; write `field: value`",
    (DESCRIPTION, "5: x"): '1: [5]: the name 5 must be text; write "5" in quotes',
    (DESCRIPTION, "~: x"): '1: the name null must be text; write "null" in quotes',
    (DESCRIPTION, "[a]: x"): "2: a list or mapping cannot be the name of a field",
    (DESCRIPTION, "<<: [a]"): "2: `<<` must name fields",
    ("One row", "One \x07 row"): "2: the character U+0007 is not allowed in YAML; remove it",
    ("    source:", "    \u00a0source:"): "8: steps[0].\u00a0source: unknown field; did you mean 'source'?",
    ("description:", "for_each: x\ndescription:"): "2: for_each: must be a list, {csv: file} or {yaml: file}",
    ("description:", "for_each: {csv: items.csv}\ndescription:"): "2: for_each.csv: no such file: tables/items.csv",
    ("description:", "for_each: []\ndescription:"): "2: for_each: must not be empty; write a list, such as [{name: a}]",
    ("description: One", "description: ${each.x}"): "2: description: unknown property ${each.x}; only allowed in a file with for_each; an SQL file can use properties and variables",
    ("description: One", "description: ${kafka.topic}"): "2: description: unknown property ${kafka.topic}; the table has no properties",
    (SOURCE[18:-1], "type: kafka\n      connection: crm\n      topic: t"): "1: step load: a source of type kafka needs incremental_type kafka_offset",
    ("description:", "incremental_type: auto\ndescription:"): "2: incremental_type: must be time_window, full, auto_inc_id, kafka_offset, files or upstream, not 'auto'",
    ("description:", "incremental_type: auto_inc_id\ndescription:"): "5: default_start: must be a whole number, the key after which rows are read, not '2022-01-01'",
    ("description:", "notify: ops\ndescription:"): "2: notify: must be a list, such as [{to: operators}], not 'ops'",
    ("description:", "notify: [{to: ops}]\ndescription:"): "2: notify[0].to: unknown recipient 'ops'; add it to logdriven.yaml",
    ("description:", "checks: [{check: a}]\ndescription:"): "2: checks[0].sql: missing; add `sql: SELECT …`",
    ("description:", "checks: [{check: latest_refresh, sql: SELECT 1}]\ndescription:"): "2: checks: latest_refresh is the name of the check for refreshes in Dagster; choose another name",
    ("description:", "checks: {a: SELECT 1}\ndescription:"): "2: checks: must be a list, such as [{check: positive, sql: SELECT …}], not {a: SELECT 1}",
    ("type: iceberg", "type: iceberg, mode: history, key: [id], deleted_when: \"op = 'D' AND rand() > 0.5\""): "12: steps[0].target.deleted_when: must depend on the columns of a row only, not on rand(); a rerun would delete other rows; load the value as a column of the changes",
    ("type: iceberg", 'type: iceberg, mode: history, key: [id], deleted_when: "gone <= current_date"'): "12: steps[0].target.deleted_when: must depend on the columns of a row only, not on current_date; a rerun would delete other rows; load the value as a column of the changes",
    ("type: iceberg", 'type: iceberg, mode: history, key: [id], deleted_when: "id IN (SELECT 1)"'): "12: steps[0].target.deleted_when: must depend on the columns of a row only, not on a query; a rerun would delete other rows; load the value as a column of the changes",
    ("    target", "    quality: {columns: {id: [not_nul]}}\n    target"): "12: steps[0].quality.columns.id[0].rule: unknown quality rule 'not_nul'; did you mean 'not_null'?; quality_rules of logdriven.yaml, sql and python define others",
    ("    target", "    quality: [not_null]\n    target"): "12: steps[0].quality: must be fields, such as {id: …}, not [not_null]",
    ("    target", "    quality: {columns: {id: [{rule: in_range, min: [1]}]}}\n    target"): "12: steps[0].quality.columns.id[0].min: must be a number or text, not [1]",
    ("    target", "    quality: {columns: {id: 5}}\n    target"): "12: steps[0].quality.columns.id: must be a list, such as [a, b], not 5",
    ("    target", "    quality: {min_pass: lots}\n    target"): "12: steps[0].quality.min_pass: must be a number, not 'lots'",
    ("    target", "    loop_over: {step: x}\n    target"): "12: steps[0].loop_over: unknown earlier step 'x'",
    ("    target", "    loop_over: 5\n    target"): "12: steps[0].loop_over: must be fields, such as {step: load}, not 5",
    ("    target", "    loop_over: {}\n    target"): "12: steps[0].loop_over: give either step or sql",
}  # fmt: skip
"""What is replaced in the file of a table, and by what → the message."""


@pytest.mark.parametrize(("old", "new"), IN_A_TABLE)
def test_a_mistake_in_a_table_is_reported_with_place_problem_and_fix(tmp_path, old, new):
    assert old in TABLE
    path = "tables/orders.yaml"
    expected = [f"{path}:{line}" for line in IN_A_TABLE[old, new].splitlines()]
    assert report(tmp_path, {path: TABLE.replace(old, new)}).splitlines() == expected


IN_THE_PROJECT = {
    ("UTC", "Europe/Berln"): "2: timezone: 'Europe/Berln' is not a time zone, such as UTC or Europe/Berlin",
    ("UTC", "1"): "2: timezone: 1 is not a time zone, such as UTC or Europe/Berlin",
    ("UTC", ""): "2: timezone: an empty value is not a time zone, such as UTC or Europe/Berlin",
    ("project: shop", "project: 5"): '1: project: must be text, not 5; write "5" in quotes if it is text',
    ("project: shop", "project: my shop"): "1: project: must be a name of letters, digits and underscores that begins with a letter, not 'my shop'",
    ("project: shop\n", ""): "1: project: missing; add `project: shop`",
    ("project: shop", "project: on"): '1: project: YAML reads on as true; write "on" in quotes',
    ("", "warehouse: ftp://lake/shop\n"): "5: warehouse: must be a local folder, a folder of a mounted file system, or a folder of an object store (s3://, gs://, abfss://); ftp:// is not supported",
    ("", "conections: {}\n"): "5: conections: unknown field; did you mean 'connections'?",
    ("{url: 'sqlite:///crm.db'}", "{}"): "4: connections.crm: write either url or kafka",
    ("sqlite:///crm.db", "postgresql://me:secret@h/d"): "4: connections.crm.url: a password in plain text; write ${env:PASSWORD} and set PASSWORD in the environment",
    ("  crm: {url: 'sqlite:///crm.db'}", "  [crm]"): "3: connections: must be names and values, such as {name: value}, not [crm]",
    ("{url: 'sqlite:///crm.db'}", "sqlite:///crm.db"): "4: connections.crm: must be fields, such as {url: postgresql://user:${env:PASSWORD}@host/database}, not 'sqlite:///crm.db'",
    ("sqlite:///crm.db", "jdbc:postgresql://h/d"): "4: connections.crm.url: remove jdbc:, as in postgresql://user:${env:PASSWORD}@host/database",
    ("{url: 'sqlite:///crm.db'}", "{url: 5}"): '4: connections.crm.url: must be text, not 5; write "5" in quotes if it is text',
    ("", "spark: {config: {a: [1]}}\n"): "5: spark.config.a: must be text, a number, or true or false, not [1]",
    ("", "spark: {config: {a: }}\n"): "5: spark.config.a: must be text, a number, or true or false, but it is empty",
    ("", "spark: local\n"): "5: spark: must be fields, such as {master: …}, not 'local'",
    ("", "defaults: {perod: 1 day}\n"): "5: defaults.perod: unknown field; did you mean 'period'?",
    ("", "defaults: {period: soon}\n"): "5: defaults.period: 'soon' is not a period, such as 1 day or 15 min",
    ("", "lease: 0\n"): "5: lease: must be at least 1 s; a shorter time than a few heartbeats ends healthy runs",
    ("", "max_parallel: 0\n"): "5: max_parallel: must be at least 1, not 0",
    ("", "ui_url: localhost\n"): "5: ui_url: must be an address without a password, such as https://dagster.example.com, not 'localhost'",
    ("", "spark: {remote: sparkhost}\n"): "5: spark.remote: must be classic, auto or an address such as sc://host:15002, not 'sparkhost'",
    ("", "properties: {a: 1}\n"): "5: properties.a: must be names and values, such as {name: value}, not 1",
    ("", "properties: {a: {b: [1]}}\n"): "5: properties.a.b: must be text, a number, or true or false, not [1]",
    ("", "recipients: {ops: me}\n"): "5: recipients.ops: must be fields, such as {type: email}, not 'me'",
    ("", "recipients: {ops: {type: email}}\n"): (
        "5: recipients.ops.server: missing; add `server: …`\n"
        "5: recipients.ops.from: missing; add `from: …`\n"
        "5: recipients.ops.to: missing; add `to: …`"
    ),
    ("", "defaults: []\n"): "5: defaults: must be fields, such as {owners: [team@example.com]}, not []",
    ("", "warehouse: s3:///shop\n"): "5: warehouse: s3:///shop: the name of a bucket or container must follow ://",
    ("", "storage: {s3.endpont: x}\n"): "5: storage: s3.endpont is not a property of PyIceberg's file systems; did you mean s3.endpoint?",
    ("", "storage: {s3.secret-access-key: abc}\n"): "5: storage.s3.secret-access-key: a secret in plain text; write ${env:S3_SECRET_ACCESS_KEY} and set S3_SECRET_ACCESS_KEY in the environment",
    ("", "catalog: {uri: http://c}\n"): "5: catalog: type: missing; write one of rest, sql, glue, hive, dynamodb, bigquery",
    ("", "catalog: {type: nessie, uri: http://c}\n"): "5: catalog: type: nessie is not one of rest, sql, glue, hive, dynamodb, bigquery; for your own class, set py-catalog-impl instead",
    ("", "catalog: {type: rest}\n"): "5: catalog: uri: missing; a catalog of type rest needs one",
    ("", "catalog: 5\n"): "5: catalog: must be text or names and values, such as {name: value}, not 5",
    ("", "run_log: 5\n"): '5: run_log: must be text, not 5; write "5" in quotes if it is text',
    ("", "run_log: nothing\n"): "5: run_log: must be the URL of a database, such as postgresql://user:${env:PASSWORD}@host/database",
    ("", "quality_rules: {x: {}}\n"): "5: quality_rules.x: a rule needs sql, fails_when or python",
    ("", "sensor: on\n"): "5: sensor: must be fields, such as {enabled: …}, not 'on'",
    ("", "sensor: {interval: fast}\n"): "5: sensor.interval: 'fast' is not a period, such as 1 day or 15 min",
}  # fmt: skip
"""What is replaced in logdriven.yaml, or added to it, and by what → the message."""


@pytest.mark.parametrize(("old", "new"), IN_THE_PROJECT)
def test_a_mistake_in_the_project_is_reported_with_place_problem_and_fix(tmp_path, old, new):
    text = PROJECT.replace(old, new) if old else PROJECT + new
    expected = [f"logdriven.yaml:{line}" for line in IN_THE_PROJECT[old, new].splitlines()]
    assert report(tmp_path, {"logdriven.yaml": text}).splitlines() == expected


IN_A_JOB = {
    "job: off\ntables: [ods.orders]\n": '1: job: YAML reads off as false; write "off" in quotes',
    "job: nightly\n": "1: tables: missing; add `tables: [ods.orders]`",
    "job: nightly\ntables: []\n": "2: tables: must not be empty; write a list, such as [ods.orders]",
    "job: nightly\ntables: [ods.order]\n": "2: tables[0]: unknown table 'ods.order'; did you mean 'ods.orders'?",
    "job: nightly\ntables: ods.orders\n": "2: tables: must be a list, such as [ods.orders], not 'ods.orders'",
    "job: nightly\ntype: weekly\ntables: [ods.orders]\n": "2: type: must be standard, not 'weekly'",
    "job: nightly\ntables: [ods.orders]\nschedule: every day\n": "3: schedule: 'every day' is not a cron expression, such as `30 6 * * *`: minute, hour, day, month, day of the week",
    "job: nightly\ntables: [ods.orders]\nschedule: 5\n": '3: schedule: must be text, not 5; write "5" in quotes if it is text',
    "job: ods_orders\ntables: [ods.orders]\nparameters: [a]\n": "3: parameters: must be names and values, such as {name: value}, not [a]",
    "job: nightly\ntables: [ods.orders]\nrelations: [{from: ods.x, to: ods.orders}]\n": "3: relations[0].from: unknown table 'ods.x'",
    "job: nightly\ntables: [ods.orders]\nrelations: [{to: ods.orders}]\n": "3: relations[0].from: missing; add `from: …`",
    "job: nightly\ntables: [ods.orders]\nrelations: {from: a, to: b}\n": "3: relations: must be a list, such as [{from: ods.orders, to: dws.sales}], not {from: a, to: b}",
    "job: nightly\ntables: [ods.orders]\nrelations: [{from: ods.orders, to: ods.orders, condition: sucess}]\n": "3: relations[0].condition: must be success, failure or always, not 'sucess'; did you mean 'success'?",
    "job: n\ntype: maintenance\nsteps: [{step: a, sql: x}]\n": "3: steps[0].exec_order: missing; add `exec_order: 10`",
    "job: n\ntype: maintenance\nsteps: [{exec_order: first, step: a, sql: SELECT 1}]\n": "3: steps[0].exec_order: must be a whole number, not 'first'",
    "job: n\ntype: maintenance\nsteps: [{exec_order: 1, step: a, upkeep: tidy}]\n": "3: steps[0].upkeep: must be expire_snapshots, compact_files, archive_log or clean, not 'tidy'",
    "job: n\ntype: maintenance\nsteps: [{exec_order: 1, step: a}]\n": "3: steps[0]: give one of sql, python and upkeep",
    "job: n\ntype: maintenance\nsteps: [{exec_order: 1, step: a, upkeep: compact_files, options: {target_mb: x}}]\n": "3: steps[0].options: compact_files has no option target_mb; its options are min_files, target_size",
    "job: nightly\ntables: [~]\n": "2: tables[0]: must be text, but it is empty",
}  # fmt: skip
"""The file of a job → the message."""


@pytest.mark.parametrize("text", IN_A_JOB)
def test_a_mistake_in_a_job_is_reported_with_place_problem_and_fix(tmp_path, text):
    expected = [f"jobs/nightly.yaml:{line}" for line in IN_A_JOB[text].splitlines()]
    assert report(tmp_path, {"jobs/nightly.yaml": text}).splitlines() == expected


def _with(text: str, step: str = "") -> str:
    """The table with another field of its own, and of its step."""
    return TABLE.replace(DESCRIPTION, text).replace("    target", f"{step}    target")


OF_FILES: dict[str, tuple[dict[str, str | bytes], str]] = {
    "empty": ({"tables/orders.yaml": ""}, "tables/orders.yaml:1: the file is empty; begin it with `table: ods.orders`"),
    "only a comment": ({"jobs/nightly.yaml": "# nothing\n"}, "jobs/nightly.yaml:1: the file is empty; begin it with `job: nightly`"),
    "empty project": ({"logdriven.yaml": ""}, "logdriven.yaml:1: the file is empty; begin it with `project: shop`"),
    "a list": ({"tables/orders.yaml": "- a\n"}, "tables/orders.yaml:1: the file must contain fields, not a list; begin it with `table: ods.orders`"),
    "a text": ({"tables/orders.yaml": "orders\n"}, "tables/orders.yaml:1: the file must contain fields, not text; begin it with `table: ods.orders`"),
    "Latin-1": ({"tables/orders.yaml": TABLE.replace("One", "Ü").encode("latin-1")}, "tables/orders.yaml:2: the byte 0xDC is not UTF-8; save the file as UTF-8"),
    "UTF-16": ({"tables/orders.yaml": TABLE.encode("utf-16")}, "tables/orders.yaml: the file is UTF-16; save the file as UTF-8"),
    "a byte order mark": ({"tables/orders.yaml": TABLE.encode("utf-8-sig")}, ""),
    "lines of Windows": ({"tables/orders.yaml": TABLE.replace("\n", "\r\n")}, ""),
    "other suffixes": ({"tables/more/other.YML": TABLE.replace("ods.orders", "ods.other"), "jobs/more/j.yml": "job: j\ntables: [ods.other]\n"}, ""),
    "no SQL file": ({"tables/orders.yaml": _with(DESCRIPTION, "    sql_file: nowhere.sql\n")}, "tables/orders.yaml:12: steps[0].sql_file: no such file: tables/nowhere.sql"),
    "a folder of SQL": ({"tables/orders.yaml": _with(DESCRIPTION, "    sql_file: more\n"), "tables/more/a.txt": ""}, "tables/orders.yaml:12: steps[0].sql_file: tables/more must be a file, not a folder"),
    "SQL in Latin-1": ({"tables/orders.yaml": _with(DESCRIPTION, "    sql_file: a.sql\n"), "tables/a.sql": b"SELECT 1\n-- caf\xe9\n"}, "tables/a.sql:2: the byte 0xE9 is not UTF-8; save the file as UTF-8"),
    "SQL that does not parse": ({"tables/orders.yaml": _with(DESCRIPTION, "    sql_file: a.sql\n"), "tables/a.sql": "SELECT *\nFROM source\nWHRE id = 1\n"}, "tables/a.sql:3: syntax error at 'id'; if Spark knows this syntax, `logdriven validate --analyze` accepts it"),
    "no Python file": ({"tables/orders.yaml": _with(DESCRIPTION, "    python: nowhere.py:clean\n")}, "tables/orders.yaml:12: steps[0].python: no such file: tables/nowhere.py"),
    "no function": ({"tables/orders.yaml": _with(DESCRIPTION, "    python: a.py:clean\n"), "tables/a.py": "def clear(source): ...\n"}, "tables/orders.yaml:12: steps[0].python: a.py has no function clean; did you mean 'clear'?"),
    "another parameter": ({"tables/orders.yaml": _with(DESCRIPTION, "    python: a.py:clean\n"), "tables/a.py": "def clean(orders_csv): ...\n"}, "tables/orders.yaml:12: steps[0].python: clean has the unknown parameter orders_csv; did you mean 'ods_orders'?"),
    "broken Python": ({"tables/orders.yaml": _with(DESCRIPTION, "    python: a.py:clean\n"), "tables/a.py": "def clean(source)\n"}, "tables/a.py:1: not Python: expected ':'"),
    "an unknown variable": ({"tables/orders.yaml": _with("variables: {region: north}", "    sql: SELECT '${regoin}' AS r FROM source\n")}, "tables/orders.yaml:12: steps[0].sql: unknown variable ${regoin}; did you mean 'region'?"),
    "an unknown table": ({"tables/orders.yaml": _with(DESCRIPTION, "    sql: SELECT * FROM sources\n")}, "tables/orders.yaml:12: steps[0].sql: unknown table 'sources'; did you mean 'source'?"),
    "two of one name": ({"tables/other.yaml": TABLE}, "tables/other.yaml:1: table: table ods.orders is defined twice, first in tables/orders.yaml"),
    "two jobs of one name": ({"jobs/nightly.yaml": JOB, "jobs/other.yaml": JOB}, "jobs/other.yaml:1: job: job nightly is defined twice, first in jobs/nightly.yaml"),
    "a job like a table": ({"tables/t.yaml": TABLE.replace("ods.orders", "t"), "jobs/nightly.yaml": "job: t\ntables: [t]\n"}, "jobs/nightly.yaml:1: job: a table has the same name"),
    "a cycle": ({"tables/orders.yaml": TABLE.replace("[]", "[dws.sales]"), "tables/sales.yaml": TABLE.replace("[]", "[ods.orders]").replace("table: ods.orders", "table: dws.sales")}, "tables/sales.yaml:5: depends_on: a cycle of dependencies: dws.sales → ods.orders → dws.sales"),
    "one target of two": ({"tables/sales.yaml": TABLE.replace("ods.orders", "dws.sales").replace("iceberg}", "iceberg, name: ods.orders}")}, "tables/sales.yaml:12: steps[0].target: ods.orders.load writes to the same target; read both in steps of one table, and unite them in its last step"),
    "one asset read in two ways": ({"tables/b.yaml": TABLE.replace("ods.orders", "ods.b").replace("depends_on: []", "depends_on: [{asset: raw/x, period: 1 hour}]"), "tables/orders.yaml": TABLE.replace("[]", "[{asset: raw/x}]")}, "tables/orders.yaml:5: depends_on[0]: ods.b has another period for asset raw/x; an asset has one value: write the same one for both dependencies, or for none"),
    "not declared": ({"tables/sales.yaml": TABLE.replace("ods.orders", "dws.sales").replace(SOURCE, "    sql: SELECT * FROM ods.orders\n")}, "tables/sales.yaml:8: steps[0].sql: reads ods.orders, which is not in depends_on; add ods.orders to depends_on"),
}  # fmt: skip
"""What was done → the files that are other or more, and the message; none where all is well."""


@pytest.mark.parametrize("case", OF_FILES)
def test_a_mistake_in_files_is_reported_with_place_problem_and_fix(tmp_path, case):
    files, message = OF_FILES[case]
    assert report(tmp_path, files) == message


def test_consequences_of_an_unreadable_file_are_not_reported(tmp_path):
    files = {"jobs/nightly.yaml": JOB, "tables/orders.yaml": TABLE.replace("{type", "{{type")}
    assert report(tmp_path, files) == (
        "tables/orders.yaml:12: a bracket is not closed, or a comma is missing"
    )


def test_a_folder_without_a_project_is_reported(tmp_path):
    with pytest.raises(InvalidProjectError) as caught:
        load_examined_project(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/logdriven.yaml: no such file; change to the folder of a project, or set "
        "--project or LOGDRIVEN_PROJECT; create a project with `logdriven init FOLDER`"
    )


WRONG: list[Any] = [None, True, 5, -1, 10**12, 1.5, "", "x y", "x" * 2000, [], [1], [[1]], {}]
WRONG += [{"a": 1}, {"a": [1]}, [{"a": 1}]]
MODELS: list[type[BaseModel]] = [ProjectConfig, TableConfig, StandardJob, MaintenanceJob]
FOREIGN = re.compile(
    r"[Ii]nput|valid |instance|pydantic|unable|dictionary|tuple|\bNone\b|True|False|another value"
)
"""Words of pydantic and Python."""


def _fields(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for model in MODELS for name in _fields(model)]
)
def test_no_wrong_value_of_any_field_is_reported_in_words_of_pydantic(model, name):
    for value in WRONG:
        document = Document(Path("a.yaml"), {name: value}, {})
        try:
            errors = list(find_ambiguities(document, model.model_validate(document.values)))
        except ValidationError as error:
            errors = list(convert_validation_errors(document, model, error))
        for told_ in errors:
            assert not FOREIGN.search(f"{told_.problem}; {told_.hint or ''}"), str(told_)
