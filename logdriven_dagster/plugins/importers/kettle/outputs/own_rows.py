"""Outputs that look up their own table: rows and columns that Kettle inserts and never updates.

A step reads the rows of the table before the window, and the last one compares with them.
"""

from logdriven_dagster.plugins.importers.kettle.comparisons import empty_as_null, literal, quote
from logdriven_dagster.plugins.importers.kettle.lookups import LookupRules, fold_text, match_rows
from logdriven_dagster.plugins.importers.kettle.outputs.models import Output


def select_written(output: Output, rows: str, own: str, *, ignores_case: bool) -> str:
    """Return the query of the rows that an output writes.

    Args:
        output: An output with `own_columns`.
        rows: The relation of the rows that it gets.
        own: The relation of its table's rows.
        ignores_case: True if the database may compare texts without case.
    """
    fields = {column: field for field, column in output.fields}
    keys = [(fields[column], column) for column in output.lookup_key]
    rules = LookupRules(finds_null=output.finds_null, ignores_case=ignores_case)
    join = match_rows(output.step, own, keys, output.kept, rules)
    if output.technical_key:
        new = f"{rows} AS s LEFT ANTI JOIN {join}"
        return _number_new(output, new, own, ignores_case=ignores_case)
    if output.inserts_only:
        columns = ", ".join(f"s.{quote(f)} AS {quote(c)}" for f, c in output.fields)
        return f"SELECT DISTINCT {columns}\nFROM {rows} AS s\nLEFT ANTI JOIN {join}"
    problem = literal(f"{output.step}: several rows of its table have a key; make the key unique")
    columns = ",\n  ".join(
        f"CASE WHEN l.n IS NULL THEN s.{quote(field)} WHEN l.n > 1 THEN raise_error({problem}) "
        f"ELSE l.r.`v{output.kept.index(column)}` END AS {quote(column)}"
        if column in output.kept
        else f"s.{quote(field)} AS {quote(column)}"
        for field, column in output.fields
    )
    return f"SELECT {columns}\nFROM {rows} AS s\nLEFT JOIN {join}"


def _number_new(output: Output, rows: str, own: str, *, ignores_case: bool) -> str:
    """Return the new combinations of keys, numbered after the greatest number of the table.

    With `ignores_case`, two combinations that the database may take for one fail.
    """
    columns = [column for _, column in output.fields]
    values = ", ".join(
        f"{empty_as_null('s.' + quote(field))} AS {quote(column)}"
        for field, column in output.fields
    )
    names = ", ".join(map(quote, columns))
    last = f"(SELECT coalesce(max({quote(output.technical_key)}), 0) FROM {own})"
    number = f"CAST({last} + row_number() OVER (ORDER BY {names}) AS BIGINT)"
    if ignores_case:
        folded = ", ".join(
            f"IF(typeof({quote(column)}) = 'string', {fold_text(quote(column), column)}, "
            f"CAST({quote(column)} AS STRING))"
            for column in columns
        )
        problem = literal(f"{output.step}: new rows differ only in case; make them equal in SQL")
        several = f"count(*) OVER (PARTITION BY {folded}) > 1"
        number = f"IF({several}, raise_error({problem}), {number})"
    return (
        f"SELECT {number} AS {quote(output.technical_key)}, {names}\n"
        f"FROM (SELECT DISTINCT {values}\nFROM {rows})"
    )
