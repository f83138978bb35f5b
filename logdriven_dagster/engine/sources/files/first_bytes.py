"""Compression and format of text files, known by their first bytes before Spark reads them.

Spark chooses the codec by the name alone: it reads compressed bytes of another name as text, and
some codecs end the JVM, or return no rows, for bytes that they cannot read.
"""

import codecs
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_HEAD = 64 * 1024
_SAMPLE = 1024
"""Number of decompressed bytes that show the format of a compressed file's content."""
_FEW = 64
"""Number of bytes that show whether a file is binary, and UTF-16 without a byte order mark."""
_END_OF_BZIP2 = 0x177245385090
_MOST_OF_A_BLOCK = 1 << 20
"""A limit of the sizes of Hadoop's blocks; its codecs write 64 to 256 KiB."""

_BLOCKS = "Hadoop LZ4 or Snappy"
_CODECS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bzip2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".deflate": "zlib",
    ".lz4": _BLOCKS,
    ".snappy": _BLOCKS,
}
"""Ending of a name, in lower case → the compression that Spark expects in the file."""
_ENDINGS = {
    "gzip": ".gz",
    "bzip2": ".bz2",
    "zstd": ".zst",
    "zlib": ".deflate",
    _BLOCKS: ".lz4 or .snappy",
}
_NEWER = {
    ".gzip": "rename it to {}.gz",
    ".zst": "compress it with gzip or bzip2",
    ".zstd": "compress it with gzip or bzip2",
}
"""Endings that Spark 4.0 does not know → the fix."""
_OF_ARROW = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}

_ZIP, _WORKBOOK = "a ZIP archive", "an Excel workbook"
_RECOMPRESS = "decompress it with {}, or compress it with gzip, bzip2 or zstd instead"
_FORMATS: Mapping[str, tuple[bytes, str]] = {
    _ZIP: (b"PK\x03\x04", "unpack it with unzip"),
    "an empty ZIP archive": (b"PK\x05\x06", "remove it"),
    "an xz file": (b"\xfd7zXZ\x00", _RECOMPRESS.format("xz -d")),
    "an LZMA file": (b"\x5d\x00\x00", _RECOMPRESS.format("xz -d")),
    "an LZ4 frame": (b"\x04\x22\x4d\x18", _RECOMPRESS.format("lz4 -d")),
    "a legacy LZ4 frame": (b"\x02\x21\x4c\x18", _RECOMPRESS.format("lz4 -d")),
    "a Snappy frame": (b"\xff\x06\x00\x00sNaPpY", _RECOMPRESS.format("snzip -d")),
    "a Snappy stream of Java": (b"\x82SNAPPY\x00", "write it with gzip, bzip2 or zstd instead"),
    "a file of compress": (b"\x1f\x9d", _RECOMPRESS.format("gzip -d")),
    "an lzop file": (b"\x89LZO\x00", _RECOMPRESS.format("lzop -d")),
    "a 7z archive": (b"7z\xbc\xaf\x27\x1c", "unpack it with 7z x"),
    "a RAR archive": (b"Rar!\x1a\x07", "unpack it with unrar"),
    "an Avro file": (b"Obj\x01", "convert it to Parquet"),
    "an Arrow file": (b"ARROW1\x00\x00", "convert it to Parquet"),
    "an Arrow stream": (b"\xff\xff\xff\xff", "convert it to Parquet"),
    "a Hadoop sequence file": (b"SEQ\x06", "convert it to Parquet"),
    "a SQLite database": (b"SQLite format 3\x00", "read it with a source of type: jdbc"),
    "an old Office document": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as CSV"),
    "a PDF document": (b"%PDF-", "move it out of the folder"),
}
"""Format → its first bytes, and the fix."""
_LETTERS = {
    "a Parquet file": (b"PAR1", "read it with a source of type: parquet"),
    "an encrypted Parquet file": (b"PARE", "write it without encryption"),
    "an ORC file": (b"ORC", "read it with a source of type: orc"),
    "a Feather file": (b"FEA1", "convert it to Parquet"),
}
"""Formats whose first bytes a text may have, too; no text has one of _CONTROLS next to them."""
_CONTROLS = frozenset(range(9))
_TAR = "a tar archive"
_FIXES = {
    **{name: fix for name, (_, fix) in (*_FORMATS.items(), *_LETTERS.items())},
    _WORKBOOK: "save it as CSV",
    _TAR: "unpack it with tar -xf",
    **dict.fromkeys(_ENDINGS, "decompress it once"),
}
ANY_ENCODING = "ANY"
"""The declared encoding of a source whose reader finds it out."""
_BOMS = {  # the longer ones first
    "UTF-32LE": codecs.BOM_UTF32_LE,
    "UTF-32BE": codecs.BOM_UTF32_BE,
    "UTF-16LE": codecs.BOM_UTF16_LE,
    "UTF-16BE": codecs.BOM_UTF16_BE,
}

ReadRange = Callable[[int, int], bytes]
"""Returns the bytes of a file from a position up to another one."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, as far as its first and last bytes show it."""

    codec: str | None = None
    """The compression, if Spark has a codec for it."""
    form: str | None = None
    """The format of the decompressed content; None for text, or if it is not known."""
    encoding: str | None = None
    """The encoding of a text with a byte order mark, or with a NUL in every second byte."""
    is_complete: bool = True


def content_of(size: int, read: ReadRange) -> Content:
    """Return the content of a file of this size: one read, and another one for bzip2."""
    first = read(0, min(size, _HEAD))
    codec = _codec_of(first, size)
    if codec is None:
        return Content(None, _form_of(first), _encoding_of(first))
    if codec == _BLOCKS:
        return Content(codec)
    inside = _decompressed(first, codec)
    form = _form_of(inside) or _codec_of(inside, 0)
    is_complete = codec != "bzip2" or _has_end_of_bzip2(read(max(size - 11, 0), size))
    return Content(codec, form, _encoding_of(inside), is_complete)


def explain_unreadable(
    name: str, size: int, content: Content, encoding: str, version: Callable[[], str]
) -> str | None:
    """Return the reason why Spark cannot read a file, with the fix; None if it can.

    Args:
        name: The base name of the file.
        size: Its size in bytes.
        content: Its content; see `content_of`.
        encoding: The encoding that the source declares.
        version: Returns the version of Spark.
    """
    stem, dot, suffix = name.rpartition(".")
    named, codec = _CODECS.get(f"{dot}{suffix.lower()}"), content.codec
    if not size:
        held = f"the file is empty, but no complete {named} file is"
        return f"{held}; write or copy it again" if named else None
    if content.form:
        held = f"contains {content.form}" if codec else f"is {content.form}"
        return f"the file {held}, not text; {_FIXES[content.form]}"
    if named and not codec:
        held = f"the file is not compressed with {named}, although its name ends in .{suffix}"
        return f"{held}; rename it to {stem}"
    if codec and named != codec:
        place = f"{stem if named else name}{_ENDINGS[codec]}"
        held = f"the file is compressed with {codec}, which its name does not show to Spark"
        return f"{held}; rename it to {place}"
    if not content.is_complete:
        held = f"the {codec} file is incomplete, or other bytes follow its end"
        return f"{held}; write or copy it again"
    if (fix := _NEWER.get(f"{dot}{suffix.lower()}")) and version().startswith("4.0."):
        return f"Spark {version()} cannot read files with the ending .{suffix}; {fix.format(stem)}"
    return _explain_encoding(content.encoding, encoding)


def _explain_encoding(found: str | None, declared: str) -> str | None:
    known = declared.upper().replace("_", "-")
    if found is None or known in (ANY_ENCODING, found, found[:-2]):
        return None
    options = f'options: {{encoding: {found}, lineSep: "\\n"}}'
    return (
        f"the text is {found}, not {declared}; write the file in UTF-8, for example with "
        f"iconv -f {found[:-2]} -t UTF-8; {options} reads it without a byte order mark"
    )


def _codec_of(first: bytes, size: int) -> str | None:
    """Return the compression that Spark has a codec for; None for other content."""
    if first.startswith(b"\x1f\x8b"):
        return "gzip"
    if first.startswith(b"BZh") and first[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bzip2"
    if first.startswith(b"\x28\xb5\x2f\xfd") or first[1:4] == b"\x2a\x4d\x18":
        return "zstd"
    if _is_zlib(first):
        return "zlib"
    return _BLOCKS if _is_of_blocks(first, size) else None


def _is_zlib(first: bytes) -> bool:
    """Return True if bytes have zlib's header, and can be decompressed."""
    if len(first) < 2 or first[0] & 15 != 8 or int.from_bytes(first[:2], "big") % 31:
        return False
    stream = zlib.decompressobj()
    try:
        return bool(stream.decompress(first, _SAMPLE)) or stream.eof
    except zlib.error:
        return False


def _is_of_blocks(first: bytes, size: int) -> bool:
    """Return True for blocks with their sizes, as Hadoop's codecs of LZ4 and Snappy write them."""
    whole, part = int.from_bytes(first[:4], "big"), int.from_bytes(first[4:8], "big")
    if not whole:
        return size == 4  # Spark writes no more for a file without rows
    return size > 8 and max(whole, part) <= _MOST_OF_A_BLOCK and 0 < part <= size - 8


def _decompressed(first: bytes, codec: str) -> bytes:
    """Return the first bytes of a file's content; nothing if its first block is too long."""
    import pyarrow as pa

    if codec == "zlib":
        return zlib.decompressobj().decompress(first, _SAMPLE)
    try:
        with pa.CompressedInputStream(pa.BufferReader(first), _OF_ARROW[codec]) as stream:
            content: bytes = stream.read(_SAMPLE)
            return content
    except (OSError, pa.ArrowException):
        return b""  # Spark reports a damaged file


def _form_of(first: bytes) -> str | None:
    if first[257:262] == b"ustar":
        return _TAR
    if first.startswith(_FORMATS[_ZIP][0]):
        return _WORKBOOK if b"[Content_Types].xml" in first else _ZIP
    for form, (begin, _) in _FORMATS.items():
        if first.startswith(begin):
            return form
    for form, (begin, _) in _LETTERS.items():
        if first.startswith(begin) and _CONTROLS & set(first[:_FEW]):
            return form
    return None


def _encoding_of(first: bytes) -> str | None:
    """Return the encoding of UTF-16 and UTF-32; None for all others."""
    for encoding, mark in _BOMS.items():
        if first.startswith(mark):
            return encoding
    start = first[:_FEW]
    if len(start) >= 4 and not any(start[1::2]) and all(start[::2]):
        return "UTF-16LE"
    if len(start) >= 4 and not any(start[::2]) and all(start[1::2]):
        return "UTF-16BE"
    return None


def _has_end_of_bzip2(last: bytes) -> bool:
    """Return True if the last 11 bytes hold the mark of the end, which begins at any bit."""
    bits = int.from_bytes(last, "big")
    checksum, mark = 32, (1 << 48) - 1
    return any(bits >> (padding + checksum) & mark == _END_OF_BZIP2 for padding in range(8))
