"""Reading Avro files with fastavro: exact values, with the types of the files' own schemas."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from uuid import UUID
from zlib import crc32

from logdriven_dagster.engine.sources.readers import Reading
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.formats.avro_types import find_spark_type
from logdriven_dagster.plugins.formats.batches import Record, format_clock
from logdriven_dagster.plugins.formats.models import AvroSource
from logdriven_dagster.plugins.formats.reader import File, LibraryFilesReader, read_header
from logdriven_dagster.plugins.formats.schemas import merge_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MAGIC = b"Obj\x01"
_DAMAGED = (
    *(EOFError, ValueError, LookupError, TypeError, AttributeError),
    *(OverflowError, MemoryError, RecursionError),
)
"""Errors that fastavro raises for a file that it cannot read."""
_CRC_BYTES = 4
_LONGEST_NUMBER = 10
_CHUNK = 1 << 24
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
        self, reading: Reading, source: AvroSource, columns: "StructType"
    ) -> Callable[[BinaryIO, str], Iterator[Record]]:
        _ = reading, source, columns
        return _read_records


def _read_columns(file: File, storage: Any) -> "StructType":
    """Return the columns of a file by the schema in its header."""
    from fastavro.schema import SchemaParseException

    try:
        schema = read_header(_read_schema, file, storage)
    except (SchemaParseException, *_DAMAGED) as error:
        raise TerminalStepError(f"{file.path} is not an Avro file ({error}); remove it") from None
    return find_spark_type(schema, file.path)


def _read_schema(stream: BinaryIO) -> Any:
    from fastavro import reader

    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("its first bytes are not those of Avro")
    stream.seek(0)
    return reader(stream).writer_schema


def _read_records(stream: BinaryIO, file: str) -> Iterator[Record]:
    from fastavro import block_reader
    from fastavro.schema import SchemaParseException

    number = 0
    with _exact_readers():
        try:
            for block in cast("Iterator[Any]", block_reader(stream)):
                for values in block:
                    number += 1
                    yield Record(cast("dict[str, Any]", values), f"record {number}")
                if block.bytes_.read(1):
                    raise ValueError("a block has more bytes than records")
        except (SchemaParseException, *_DAMAGED) as error:
            raise TerminalStepError(
                f"{file}, after record {number}: the file is incomplete or damaged, or its codec "
                f"is not installed ({str(error) or type(error).__name__}); write it again"
            ) from None


@contextmanager
def _exact_readers() -> Iterator[None]:
    """Have fastavro verify blocks, and convert values exactly to the numbers that Arrow stores."""
    from fastavro.read import BLOCK_READERS, LOGICAL_READERS

    known, codecs = dict(LOGICAL_READERS), dict(BLOCK_READERS)
    LOGICAL_READERS.update(_LOGICAL)
    BLOCK_READERS.update({name: partial(_read_block, name, read) for name, read in codecs.items()})
    try:
        yield
    finally:
        LOGICAL_READERS.clear()
        LOGICAL_READERS.update(known)
        BLOCK_READERS.update(codecs)


def _read_block(codec: str, decompress: Callable[[BinaryIO], BinaryIO], stream: BinaryIO) -> Any:
    """Return the bytes of a block.

    Libraries of codecs raise errors of any type, also OSError. So the block is read before they
    decompress it: an OSError of the storage is none of the file.
    """
    framed, size = _read_size(stream)
    content = b"".join(_read_parts(stream, size))
    try:
        block = decompress(BytesIO(framed + content))
    except Exception as error:  # noqa: BLE001 - the libraries have no common type
        raise ValueError(error) from None
    if codec == "snappy" and crc32(block.read()) != int.from_bytes(content[-_CRC_BYTES:], "big"):
        raise ValueError("the checksum of a block is wrong")
    block.seek(0)
    return block


def _read_size(stream: BinaryIO) -> tuple[bytes, int]:
    """Return a number as Avro stores it, and the number."""
    read, number = b"", 0
    while not read or read[-1] & 0x80:
        byte = stream.read(1)
        if not byte:
            raise EOFError
        number |= (byte[0] & 0x7F) << 7 * len(read)
        read += byte
        if len(read) > _LONGEST_NUMBER:
            raise ValueError("the size of a block is not a number")
    size = (number >> 1) ^ -(number & 1)
    if size < 0:
        raise ValueError(f"the size of a block is {size}")
    return read, size


def _read_parts(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield `size` bytes; a damaged size does not allocate memory for bytes that do not exist."""
    while size:
        part = stream.read(min(size, _CHUNK))
        if not part:
            raise EOFError
        size -= len(part)
        yield part


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
    return format_clock(seconds, f"{fraction:0{len(str(unit)) - 1}d}")


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
