"""SQL for JSON records as text: parsing with a source's options, and objects that Spark skips.

Spark reads only the first object of a line, and only the first document of a `multiline` file. It
reports neither.
"""

from logdriven_dagster.config.models.types.files import JsonSource
from logdriven_dagster.engine.queries.quoting import text_literal
from logdriven_dagster.engine.sources.files.records import record_options

_VALUE = "trim(LEADING '\\uFEFF' FROM value)"
"""The record without a byte order mark, which Spark skips in files but not in texts."""


def parse_text(source: JsonSource, text: str, kind: str) -> str:
    """Return SQL that parses `text` as a value of the type with the options of the source."""
    options = record_options(source) | {"mode": "PERMISSIVE"}
    pairs = ", ".join(f"{text_literal(k)}, {text_literal(v)}" for k, v in options.items())
    return f"from_json({text}, {text_literal(kind)}, map({pairs}))"


def has_skipped_objects(source: JsonSource) -> str:
    """Return a condition on the record in `value`: Spark reads only a part of it."""
    return _has_several_documents(source) if source.multiline else _continues_after_end(source)


def _has_several_documents(source: JsonSource) -> str:
    both = f"'[' || {_VALUE} || ',0]'"  # the 0 shows that the file did not close the list itself
    size = _size(parse_text(source, both, "ARRAY<STRING>"))
    return f"coalesce({size}, 0) != 2 AND {_first_size(source)} IS NOT NULL"


def _continues_after_end(source: JsonSource) -> str:
    """Return the condition that the line in `value` continues after its first value.

    Only lines whose first brace does not end them are parsed for it. A comma at the end is allowed,
    as in a list over several lines.
    """
    line = f"trim(TRAILING ' ,' FROM {_VALUE})"
    is_flat = (
        "startswith(value, '{') AND octet_length(trim(TRAILING ' ,' FROM value)) = "
        "octet_length(substring_index(value, '}', 1)) + 1"
    )
    both = f"'[' || {line} || ',0]'"  # the 0 shows that the line did not close the list itself
    size = _size(parse_text(source, both, "ARRAY<STRING>"))
    # Spark's own function is fast, but supports no reader options.
    count = f"coalesce(json_array_length({both}), {size}, 0)"
    return f"NOT ({is_flat}) AND {count} != 2 AND {_first_size(source)} IS NOT NULL"


def _first_size(source: JsonSource) -> str:
    """Return SQL of the size of the first object or list in `value`; NULL if it is neither."""
    kinds = ("MAP<STRING, STRING>", "ARRAY<STRING>")
    sizes = [_size(parse_text(source, _VALUE, kind)) for kind in kinds]
    return f"coalesce({', '.join(sizes)})"


def _size(collection: str) -> str:
    return f"nullif(size({collection}), -1)"
