"""The neutral reader: DuckDB, in an environment of its own; a question and an answer as JSON.

The answer holds each day's row count and the sum of its rows' hashes over all columns that the
transform makes. What a contestant added for itself, such as a technical column, is left out.
"""

import json
import sys
from datetime import date, timedelta
from typing import Any

import duckdb

from benchmarks.queries import FIRST_DAY, TRANSFORMS


def answer(question: dict[str, Any]) -> dict[str, list[object]]:
    """Day → rows and hash, as text where JSON's numbers are too small."""
    conn = duckdb.connect()
    conn.execute(f"CREATE VIEW raw AS SELECT * FROM {_source(question)}")
    conn.execute(f"CREATE VIEW orders AS SELECT {_columns(conn, 'raw')} FROM raw")
    end = date.fromisoformat(FIRST_DAY) + timedelta(days=question["end"])
    query = TRANSFORMS[question["transform"]].format(
        source="orders", filter=f"ordered_at < TIMESTAMP '{end.isoformat()}'"
    )
    conn.execute(f"CREATE VIEW expected AS {query}")
    if question["what"] == "written":
        conn.execute(f"CREATE VIEW found AS SELECT * FROM {_files(question)}")
        conn.execute(f"CREATE VIEW plain AS SELECT {_columns(conn, 'found')} FROM found")
    types = conn.execute("DESCRIBE expected").fetchall()
    values = ", ".join(f"CAST({name} AS {kind})" for name, kind, *_ in sorted(types))
    origin = "plain" if question["what"] == "written" else "expected"
    rows = conn.execute(
        f"SELECT CAST(CAST(day AS DATE) AS VARCHAR), count(*), "
        f"CAST(sum(CAST(hash({values}) AS HUGEINT)) AS VARCHAR) FROM {origin} GROUP BY 1"
    ).fetchall()
    return {day: [count, digest] for day, count, digest in rows}


def _source(question: dict[str, Any]) -> str:
    return f"read_parquet('{question['source']}/**/*.parquet', hive_partitioning=false)"


def _files(question: dict[str, Any]) -> str:
    names = json.dumps(question["files"]).replace('"', "'")
    if question["files"][0].endswith(".csv"):
        return (
            f"read_csv({names}, header=true, all_varchar=true, nullstr='', "
            "allow_quoted_nulls=false)"
        )
    hive = str(question["hive"]).lower()
    return f"read_parquet({names}, hive_partitioning={hive}, union_by_name=true)"


def _columns(conn: "duckdb.DuckDBPyConnection", view: str) -> str:
    """All columns, instants as times of UTC without a zone: no zone can come between then."""
    columns = conn.execute(f"DESCRIBE {view}").fetchall()
    return ", ".join(
        f"make_timestamp(epoch_us({name})) AS {name}" if "TIME ZONE" in kind else f'"{name}"'
        for name, kind, *_ in columns
    )


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
