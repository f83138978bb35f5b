"""Reading Avro files with fastavro: exact values, with the types of the files' own schemas."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from uuid import UUID

from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.avro_types import find_spark_type
from logdriven_dagster.plugins.formats.batches import Record
from logdriven_dagster.plugins.formats.models import AvroSource
from logdriven_dagster.plugins.formats.reader import File, LibraryFilesReader, read_header
from logdriven_dagster.plugins.formats.schemas import merge_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MAGIC = b"Obj\x01"
_EXACT = Context(prec=1000)
_MILLI, _MICRO = 1_000, 1_000_000
_DAY = 86_400


class AvroReader(LibraryFilesReader):
    """Reader of Avro files."""

    extra, library = "avro", "fastavro"

    def get_columns(
        self, reading: Reading, source: AvroSource, files: Callable[[], list[File]]
    ) -> "StructType":
        storage = tuple(sorted(reading.project.storage.items()))
        found = [(file, _read_columns(file, storage)) for file in files()]
        declared = mode_of(reading.spark).parse_columns(source.columns) if source.columns else None
        return merge_columns(found, declared, reading.table.missing_columns, source.path)

    def get_record_reader(
        self, source: AvroSource, columns: "StructType", zone: str
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        _ = source, columns, zone
        return _read_records


def _read_columns(file: File, storage: Any) -> "StructType":
    """Return the columns of a file by the schema in its header."""
    try:
        schema = read_header(_read_schema, file, storage)
    except (ValueError, EOFError, KeyError) as error:
        raise TerminalStepError(f"{file.path} is not an Avro file ({error}); remove it") from None
    return find_spark_type(schema, file.path)


def _read_schema(stream: BinaryIO) -> Any:
    from fastavro import reader

    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("its first bytes are not those of Avro")
    stream.seek(0)
    return reader(stream).writer_schema


def _read_records(stream: BinaryIO, file: str) -> Iterator[Record]:
    from fastavro import reader

    number = 0
    with _exact_logical_types():
        try:
            for values in reader(stream):
                number += 1
                yield Record(cast("dict[str, Any]", values), f"record {number}")
        except (EOFError, ValueError, IndexError) as error:
            raise TerminalStepError(
                f"{file}, after record {number}: the file is incomplete or damaged, or its codec "
                f"is not installed ({str(error) or type(error).__name__}); write it again"
            ) from None


@contextmanager
def _exact_logical_types() -> Iterator[None]:
    """Have fastavro convert values exactly, and to the numbers that Arrow stores."""
    from fastavro.read import LOGICAL_READERS

    known = dict(LOGICAL_READERS)
    LOGICAL_READERS.update(_LOGICAL)
    try:
        yield
    finally:
        LOGICAL_READERS.clear()
        LOGICAL_READERS.update(known)


def _keep(value: Any, *_: Any) -> Any:
    return value


def _scale_up(value: int, *_: Any) -> int:
    return value * _MILLI


def _scale_down(value: int, *_: Any) -> Any:
    micros, rest = divmod(value, _MILLI)
    return micros if rest == 0 else f"{value} ns, with digits below a microsecond"


def _to_decimal(value: bytes, schema: Mapping[str, Any], *_: Any) -> Decimal:
    number = Decimal(int.from_bytes(value, "big", signed=True))
    return number.scaleb(-int(schema.get("scale", 0)), _EXACT)


def _to_clock(value: int, *_: Any, unit: int) -> str:
    if not 0 <= value < _DAY * unit:
        raise ValueError(f"a time of day is {value / unit} seconds")
    seconds, fraction = divmod(value, unit)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{'.' * bool(digits)}{digits}"


def _to_uuid(value: bytes, *_: Any) -> str:
    return str(UUID(bytes=value))


_LOGICAL: Mapping[str, Callable[..., Any]] = {
    "int-date": _keep,
    "int-time-millis": partial(_to_clock, unit=_MILLI),
    "long-time-micros": partial(_to_clock, unit=_MICRO),
    **{
        f"long-{kind}-{unit}": convert
        for kind in ("timestamp", "local-timestamp")
        for unit, convert in (("millis", _scale_up), ("micros", _keep), ("nanos", _scale_down))
    },
    "bytes-decimal": _to_decimal,
    "fixed-decimal": _to_decimal,
    "string-uuid": _keep,
    "fixed-uuid": _to_uuid,
}
"""Type and logical type → the conversion of a value."""
