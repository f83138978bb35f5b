"""Conversion of Spark errors into one sentence each, with column, value and file.

Spark names the condition of an error and its parameters; SENTENCES has a plain sentence for each
condition. Other conditions are reported in Spark's words, without codes and advice on settings.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

from logdriven_dagster.config.secrets import redact_start


@dataclass(frozen=True, slots=True)
class JvmException:
    """One exception of a chain of causes in Spark's JVM."""

    types: tuple[str, ...]
    """Names of its class and of all superclasses."""
    message: str
    condition: str | None = None
    """Spark's error condition; None for other exceptions."""
    sql_state: str | None = None
    error_code: int | None = None
    """The database's error code, if a JDBC driver reports one; None over Spark Connect."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Message parameters of the condition, by Spark's names."""
    fragment: str = ""
    """The part of the query where the error occurred, if Spark reports it."""

    @property
    def name(self) -> str:
        """Name of its class without the package."""
        return self.types[0].rpartition(".")[2].rpartition("$")[2]


_LONGEST_FRAGMENT = 80

Sentence: TypeAlias = "str | Callable[[JvmException], str]"


def sentence_of(chain: Sequence[JvmException]) -> str:
    """Return one sentence for a chain of exceptions, which starts with the outermost."""
    telling = [thrown for thrown in chain if not repeats_its_cause(thrown)] or list(chain)
    lacks_connector = any(_NO_CONNECTOR.search(thrown.message) for thrown in chain)
    return _join_messages(telling) + (_CONNECTORS if lacks_connector else "")


_NO_CONNECTOR = re.compile(
    r"No FileSystem for scheme|Class (org\.apache|com\.google\.cloud)\.hadoop\.fs\.\S+ not found"
)
_CONNECTORS = (
    "; put the Hadoop connector of this store (hadoop-aws, hadoop-azure or Google's) on Spark's "
    "class path"
)


def repeats_its_cause(thrown: JvmException) -> bool:
    """Return whether this is Spark's wrapper of a failed task, whose text is a stack trace."""
    return thrown.types[0] == "org.apache.spark.SparkException" and thrown.condition is None


def _join_messages(chain: Sequence[JvmException]) -> str:
    """Return the sentence of the outermost exception, with those of causes that add details."""
    first, *causes = chain
    text = _one(first)
    if not causes or _family(first) not in _SAID_BY_THEIR_CAUSE:
        return text
    if _family(first) in _SAID_BY_THE_LAST_CAUSE:
        causes = causes[-1:]
    return f"{text}: {_join_messages(causes)}"


_SAID_BY_THEIR_CAUSE = frozenset(
    {"FAILED_JDBC", "FAILED_READ_FILE", "MALFORMED_RECORD_IN_PARSING", "TASK_WRITE_FAILED"}
)
_SAID_BY_THE_LAST_CAUSE = frozenset({"TASK_WRITE_FAILED"})
"""Conditions whose nearer causes are only wrappers of writers and streams."""


def _one(thrown: JvmException) -> str:
    is_named = thrown.condition and not thrown.condition.startswith("_LEGACY")
    sentence = SENTENCES.get(_family(thrown)) if is_named else _of_java(thrown)
    if sentence is None:
        return _read_message(thrown)
    if callable(sentence):
        return sentence(thrown)
    return sentence.format_map(_Parts(thrown))


def _of_java(thrown: JvmException) -> "Sentence | None":
    """Return the sentence for the exception's class, or for its nearest superclass."""
    if thrown.types[0] == "java.lang.RuntimeException":
        return _read_first_sentence
    return next((_OF_JAVA[name] for name in thrown.types if name in _OF_JAVA), None)


def _family(thrown: JvmException) -> str:
    """Return the condition without its variant: CAST_INVALID_INPUT, UNRESOLVED_COLUMN."""
    return (thrown.condition or "").partition(".")[0]


class _Parts(dict[str, str]):
    """The parameters of an error without Spark's quotes, and its position in the query."""

    def __init__(self, thrown: JvmException) -> None:
        super().__init__({name: _plain(value) for name, value in thrown.parameters.items()})
        # Spark marks a number's type with a suffix: 3000000000L.
        self["number"] = re.sub(r"(?<=\d)[LSBDF]$|BD$", "", self.get("value", ""))
        self["where"] = f" in {_cut(thrown.fragment)}" if thrown.fragment else ""
        self["place"] = _place(thrown.message)
        near = self.get("proposal", "").split(", ")
        self["suggestion"] = f"; did you mean {' or '.join(near[:3])}?" if near[0] else ""

    def __missing__(self, name: str) -> str:
        return "?"


def _plain(value: str) -> str:
    if re.fullmatch(r"file:/.*", value):
        return unquote(re.sub(r"^file:/+", "/", value))
    return re.sub(r'[`"]|^\[|\]$', "", value)


def _cut(fragment: str) -> str:
    text = " ".join(fragment.split())
    cut = redact_start(text, _LONGEST_FRAGMENT)
    return cut if len(text) <= _LONGEST_FRAGMENT else f"{cut} …"


def _place(message: str) -> str:
    """Return the position in the query, with lines and columns that count from 1."""
    found = re.search(r"line (\d+), pos (\d+)|line (\d+) pos (\d+)", message)
    if not found:
        return ""
    line, column = (int(number) for number in found.groups() if number is not None)
    return f" (line {line}, column {column + 1} of the query)"


def _read_message(thrown: JvmException) -> str:
    message = thrown.message.strip().split("\n\tat ")[0]
    code = re.match(r"\[[A-Z_0-9.]+\]", message)
    if code is None:
        line = message.partition("\n")[0]
        return f"{thrown.name}: {line}".rstrip(": ")
    text = message[code.end() :].partition("SQLSTATE:")[0]
    text = " ".join(text.replace("`", "").split())
    text = re.sub(r" (If necessary|If needed) set .*", "", text)
    return text.rstrip(".") + _place(message)


def _unsupported(thrown: JvmException) -> str:
    """Return the fix for an encoding that this version of Spark cannot read."""
    if "BYTE_STREAM_SPLIT" not in thrown.message:
        return _read_message(thrown)
    return (
        "its columns have the encoding BYTE_STREAM_SPLIT, which this version of Spark cannot "
        f"read; {FIX_OF_SPLIT}, or use Spark 4.3 or newer"
    )


def _header(thrown: JvmException) -> str:
    """Describe a CSV header that does not match the columns; report other errors verbatim."""
    given = dict(re.findall(r"^ (Header|Schema): (.*)$", thrown.message, re.MULTILINE))
    if not {"Header", "Schema"} <= given.keys():
        return _read_message(thrown)
    return f"its header is {given['Header']}, but the columns are {given['Schema']}"


def _read_first_sentence(thrown: JvmException) -> str:
    """Return the first sentence of an exception whose class is not informative."""
    text = re.sub(r"^file:/\S+ is not", "it is not", thrown.message)
    return re.split(r"\.\s|\n", text)[0] or thrown.name


def _missing_class(thrown: JvmException) -> str:
    return (
        f"Spark does not have the Java class {thrown.message}; add its jar to "
        "spark.jars in spark.config"
    )


_REFUSED = re.compile(r"column .* holds .*; read it with options\.customSchema: .* in query")
"""Message of our own conversion checks in queries, as `exact_values.refusal` words it."""


_MISFIT = re.compile(r"\(conn=\d+\) (.*) for column `[^`]*`\.`[^`]*`\.`(.*)` at row \d+")
"""MariaDB's message for a value that a column of the staging table does not store."""


def _of_a_database(thrown: JvmException) -> str:
    if refused := _REFUSED.search(thrown.message):
        return refused[0].replace("`", "")
    if misfit := _MISFIT.match(thrown.message):
        fix = "convert the value in the step's SQL, or change the column"
        return f"column {misfit[2]}: {misfit[1]}; {fix}"
    if thrown.message == "No suitable driver":
        return "Spark has no JDBC driver for this database; add its jar to spark.jars"
    return f"the database says: {thrown.message.strip().partition(chr(10))[0]}"


def _number(thrown: JvmException) -> str:
    found = re.fullmatch(r'For input string: (".*")(?: .*)?', thrown.message, re.DOTALL)
    return f"{found[1]} is not a number of that type" if found else _read_message(thrown)


def _format_python_error(thrown: JvmException) -> str:
    """Return the exception of a Python function, and the line of the user's file that raised it."""
    text = thrown.message.partition("Traceback (most recent call last)")[2] or thrown.message
    text = re.sub(r"\s*SQLSTATE: \w+\s*$", "", text)
    raised = [line for line in text.splitlines() if re.match(r"[\w.]+(:|$)", line)]
    frames = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [frame for frame in frames if not re.search(r"site-packages|pyspark|<", frame[0])]
    place = f" ({own[-1][0]}:{own[-1][1]})" if own else ""
    return (raised[-1] if raised else text.strip().splitlines()[-1]) + place


VECTORIZED_READER = "spark.sql.parquet.enableVectorizedReader"
FIX_OF_SPLIT = (
    "write it with another one (DuckDB: PARQUET_VERSION V1; PyArrow: "
    f"use_byte_stream_split=False), set {VECTORIZED_READER}: false in spark.config"
)
"""The fix for Parquet columns with the encoding BYTE_STREAM_SPLIT."""

SENTENCES: Mapping[str, Sentence] = {
    "AMBIGUOUS_REFERENCE": "the column {name} is in more than one table: {referenceNames}; add the "
    "table's name{place}",
    "ARITHMETIC_OVERFLOW": "the result of a calculation is too large for its type{where}",
    "CANNOT_PARSE_JSON_FIELD": "the field {fieldName} holds {fieldValue}, which is not of type "
    "{dataType}",
    "CANNOT_PARSE_TIMESTAMP": "{message}{where}",
    "CAST_INVALID_INPUT": "the value {expression} is not of type {targetType}{where}; correct it, "
    "or use try_cast to get NULL instead",
    "CAST_OVERFLOW": "the value {number} is too large for type {targetType}{where}",
    "COLUMN_ALREADY_EXISTS": "there are two columns named {columnName}",
    "CONFLICTING_PARTITION_COLUMN_NAMES": "folder names are different columns in "
    "different places: "
    "{distinctPartColLists}; read folders of one depth, as in path: in/*/*, or "
    "each with a separate step",
    "DATA_SOURCE_NOT_FOUND": "Spark has no data source {provider}; add its jar to spark.jars in "
    "spark.config",
    "DIVIDE_BY_ZERO": "division by zero{where}; use try_divide to get NULL instead",
    "FAILED_JDBC": "Spark cannot use the database",
    "FAILED_READ_FILE": "cannot read the file {path}",
    "INVALID_ARRAY_INDEX": "an array of {arraySize} elements has no element {indexValue}{where}",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "an array of {arraySize} elements has no element "
    "{indexValue}{where}",
    "MALFORMED_RECORD_IN_PARSING": "the record {badRecord} does not match the columns",
    "NUMERIC_VALUE_OUT_OF_RANGE": "the value {value} is too large for type "
    "DECIMAL({precision}, {scale}){where}",
    "PARSE_EMPTY_STATEMENT": "the query is empty",
    "PARSE_SYNTAX_ERROR": "the query has a syntax error at or near {error}{place}",
    "PATH_NOT_FOUND": "file or folder {path} does not exist",
    "PYTHON_EXCEPTION": _format_python_error,
    "REMAINDER_BY_ZERO": "remainder of a division by zero{where}; use try_mod to get NULL instead",
    "TASK_WRITE_FAILED": "Spark cannot write to {path}",
    "TABLE_OR_VIEW_NOT_FOUND": "unknown table {relationName}{place}; a query can read "
    "source, earlier steps and the tables of depends_on; a source of type table, those of Spark's "
    "catalogs",
    "UNABLE_TO_INFER_SCHEMA": "the columns of {format} files cannot be inferred; set them in the "
    "source's columns",
    "UNBOUND_SQL_PARAMETER": "the query uses the unknown parameter :{name}",
    "UNRESOLVED_COLUMN": "unknown column {objectName}{place}{suggestion}",
    "UNRESOLVED_ROUTINE": "unknown function {routineName}{place}",
    "UNSUPPORTED_DATATYPE": "{typeName} is not a type of Spark",
    "USER_RAISED_EXCEPTION": "{errorMessage}",
    "WRONG_NUM_ARGS": "the function {functionName} takes {expectedNum} arguments, not {actualNum}"
    "{place}",
}
"""Condition of Spark without its variant → the sentence, with the names of its parameters."""

_OF_JAVA: Mapping[str, Sentence] = {
    "java.lang.ClassNotFoundException": _missing_class,
    "java.lang.NumberFormatException": _number,
    "java.lang.OutOfMemoryError": "Spark's Java is out of memory; increase spark.driver.memory in "
    "spark.config",
    "org.apache.spark.SparkIllegalArgumentException": _header,
    "org.apache.spark.SparkUnsupportedOperationException": _unsupported,
    "org.apache.spark.api.python.PythonException": _format_python_error,  # without a condition
    "java.sql.SQLException": _of_a_database,
}
"""Classes of exceptions without a condition; subclasses are included."""
