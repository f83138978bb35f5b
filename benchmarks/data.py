"""The generated orders that every contestant reads, and what has to come of them.

Shapes of real life: few customers order most, products and countries are skewed, some values are
missing, times have microseconds, and rows arrive up to some hours late, so that files and days do
not coincide. The same seed gives the same rows. The expected results are computed by DuckDB, which
only dlt's contestants use.
"""

import shutil
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import queries

SEED = 20_240_101
FIRST_DAY = date.fromisoformat(queries.FIRST_DAY)
DAY_SECONDS = 86_400
ROWS_OF_A_FILE = 500_000
ROWS_OF_A_GROUP = 100_000
COLUMNS = (
    "order_id BIGINT, ordered_at TIMESTAMP, customer_id BIGINT, product STRING, country STRING, "
    "amount DECIMAL(12,2), quantity INT, note STRING, from_web BOOLEAN"
)
"""The columns of the files, for those who have to be told."""
COUNTRIES = ("DE", "US", "FR", "PL", "IT", "ES", "NL", "SE", "AT", "CH", "DK", "PT")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is generated: `rows` over `days`, and as much again for each of `more` days."""

    rows: int
    days: int
    more: int = 1
    by_day: bool = False
    """Whether Spark wrote the files with its defaults, into a folder `ds=…` for each day."""

    @property
    def name(self) -> str:
        return f"{self.rows}-rows-{self.days}-days{'-by-day' if self.by_day else ''}"


def midnight(day: int) -> datetime:
    """The beginning of the n-th day, counted from 0, in UTC."""
    first = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=timezone.utc)
    return first + timedelta(days=day)


def make(shape: Shape, parent: Path) -> Path:
    """The folder with the Parquet files of a shape; written once."""
    folder = parent / shape.name
    if folder.exists():
        return folder
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    total = shape.rows * (shape.days + shape.more) // shape.days
    table = _by_arrival(_orders(total, shape.days + shape.more))
    for number, start in enumerate(range(0, total, ROWS_OF_A_FILE)):
        part = table.slice(start, ROWS_OF_A_FILE)
        pq.write_table(part, draft / f"part-{number:03}.parquet", row_group_size=ROWS_OF_A_GROUP)
    draft.rename(folder)
    return folder


def _by_arrival(table: pa.Table) -> pa.Table:
    """In the order of arrival; a tenth of the rows is late, by an hour on average."""
    rng = np.random.default_rng(SEED + 1)
    at = table["ordered_at"].cast(pa.int64()).to_numpy()
    late = rng.exponential(3600e6, len(at)) * (rng.random(len(at)) < 0.1)
    return table.take(pa.array(np.argsort(at + late, kind="stable")))


def _orders(rows: int, days: int) -> pa.Table:
    rng = np.random.default_rng(SEED)
    micros = np.sort(rng.integers(0, days * DAY_SECONDS * 1_000_000, rows))
    start = int(midnight(0).timestamp()) * 1_000_000
    cents = np.round(np.exp(rng.normal(3.2, 1.1, rows)) * 100).astype(np.int64)
    note = rng.integers(0, 5000, rows)
    columns = {
        "order_id": pa.array(np.arange(1, rows + 1)),
        "ordered_at": pa.array(start + micros).cast(pa.timestamp("us", tz="UTC")),
        "customer_id": pa.array(np.minimum(rng.zipf(1.3, rows), 2_000_000)),
        "product": _texts([f"product {n}" for n in range(400)], _skewed(rng, rows, 400)),
        "country": _texts(COUNTRIES, _skewed(rng, rows, len(COUNTRIES)), rng.random(rows) < 0.03),
        "amount": _decimals(cents),
        "quantity": pa.array(
            rng.integers(1, 9, rows).astype(np.int32), mask=rng.random(rows) < 0.02
        ),
        "note": _texts([_note(n) for n in range(5000)], note, rng.random(rows) < 0.4),
        "from_web": pa.array(rng.random(rows) < 0.7),
    }
    return pa.table(columns)


def _skewed(rng: np.random.Generator, rows: int, kinds: int) -> np.ndarray:
    return (rng.zipf(1.4, rows) - 1) % kinds


def _texts(
    values: "list[str] | tuple[str, ...]", which: np.ndarray, missing: np.ndarray | None = None
) -> pa.Array:
    indices = pa.array(which.astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values)).cast(pa.string())


def _decimals(cents: np.ndarray) -> pa.Array:
    hundredth = pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))
    return pc.multiply(pa.array(cents).cast(pa.decimal128(19, 0)), hundredth).cast(
        pa.decimal128(12, 2)
    )


def _note(number: int) -> str:
    """Texts between nothing and a sentence."""
    words = ("please", "leave", "at", "the", "door", "call", "before", "gift", "no", "bag")
    return " ".join(words[(number * k + k) % 10] for k in range(1, number % 9 + 1))
