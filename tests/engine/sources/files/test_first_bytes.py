"""A text file is plain, or of a codec that its name shows to Spark; anything else is refused."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet

from logdriven_dagster.engine.sources.files.first_bytes import content_of, explain_unreadable
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import json_lines, load, refused
from tests.lake import Lake

TEXT = b"a,b\n1,x\n2,y\n"


def zstd(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content).to_pybytes()  # type: ignore[no-any-return]


def archived(form: str, name: str = "in.csv") -> bytes:
    found = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(found, "w") as archive:
            archive.writestr(name, TEXT)
    else:
        with tarfile.open(fileobj=found, mode=f"w:{form}") as tar:
            entry = tarfile.TarInfo(name)
            entry.size = len(TEXT)
            tar.addfile(entry, io.BytesIO(TEXT))
    return found.getvalue()


def of_arrow(form: str) -> bytes:
    table, found = pa.table({"a": [1, 2]}), io.BytesIO()
    if form == "parquet":
        parquet.write_table(table, found)
    elif form == "orc":
        orc.write_table(table, found)
    elif form == "stream":
        with pa.ipc.new_stream(found, table.schema) as stream:
            stream.write_table(table)
    else:
        feather.write_feather(table, found)
    return found.getvalue()


def problem_of(name: str, content: bytes, encoding: str = "UTF-8", version: str = "4.3.0") -> str:
    found = content_of(len(content), lambda start, end: content[start:end])
    return explain_unreadable(name, len(content), found, encoding, lambda: version) or ""


MEMBERS = gzip.compress(TEXT) + gzip.compress(b"3,z\n")
READ = {
    "f.csv": TEXT,
    "f": TEXT,
    "empty.csv": b"",
    "mark.csv": b"\xef\xbb\xbf" + TEXT,
    "nul.csv": b"a\x00,b\n" * 40,
    "f.csv.gz": gzip.compress(TEXT),
    "upper.csv.GZ": gzip.compress(TEXT),
    "members.csv.gz": MEMBERS,
    "empty_gz.csv.gz": gzip.compress(b""),
    "f.gzip": gzip.compress(TEXT),
    "f.csv.bz2": bz2.compress(TEXT),
    "members.csv.bz2": bz2.compress(TEXT) + bz2.compress(b"3,z\n"),
    "empty_bz.csv.bz2": bz2.compress(b""),
    "f.csv.zst": zstd(TEXT),
    "f.csv.zstd": zstd(TEXT),
    "f.csv.deflate": zlib.compress(TEXT),
    "letters.csv": b"PAR1,ORC,BZh9,PK\nx^2,1,2,3\n" * 3,
    "orc.csv": b"ORC,ELF\n1,2\n",
}


def test_text_and_compressed_text_are_known_by_their_first_bytes():
    assert {name: problem_of(name, content) for name, content in READ.items()} == dict.fromkeys(
        READ, ""
    )


REFUSED = {
    "gz.csv": (gzip.compress(TEXT), "compressed with gzip, which its name", "to gz.csv.gz"),
    "f.csv.tar": (gzip.compress(TEXT), "compressed with gzip", "rename it to f.csv.tar.gz"),
    "bz.csv": (bz2.compress(TEXT), "compressed with bzip2", "rename it to bz.csv.bz2"),
    "zst.csv": (zstd(TEXT), "compressed with zstd", "rename it to zst.csv.zst"),
    "zlib.csv": (zlib.compress(TEXT), "compressed with zlib", "rename it to zlib.csv.deflate"),
    "plain.csv.gz": (TEXT, "not compressed with gzip, although its name ends in .gz", "plain.csv"),
    "plain.csv.bz2": (TEXT, "not compressed with bzip2, although", "rename it to plain.csv"),
    "plain.csv.zst": (TEXT, "not compressed with zstd", "rename it to plain.csv"),
    "plain.csv.lz4": (TEXT, "not compressed with Hadoop LZ4 or Snappy", "plain.csv"),
    "bz.csv.gz": (bz2.compress(TEXT), "compressed with bzip2, which its name", "to bz.csv.bz2"),
    "zero.csv.gz": (b"", "is empty, but no complete gzip file is", "write or copy it again"),
    "cut.csv.bz2": (bz2.compress(TEXT)[:-6], "bzip2 file is incomplete", "write or copy it"),
    "more.csv.bz2": (bz2.compress(TEXT) + b"3,z\n", "or other bytes follow its end", "write"),
    "f.zip": (archived("zip"), "is a ZIP archive, not text", "unpack it with unzip"),
    "zip.csv": (archived("zip"), "is a ZIP archive, not text", "unpack it with unzip"),
    "f.xlsx": (archived("zip", "[Content_Types].xml"), "an Excel workbook", "save it as CSV"),
    "f.tar": (archived(""), "is a tar archive, not text", "unpack it with tar -xf"),
    "f.tar.gz": (archived("gz"), "contains a tar archive, not text", "unpack it with tar -xf"),
    "f.tgz": (archived("gz"), "contains a tar archive, not text", "unpack it with tar -xf"),
    "f.tar.bz2": (archived("bz2"), "contains a tar archive, not text", "unpack it with tar"),
    "tar.csv.zst": (zstd(archived("")), "contains a tar archive", "unpack it with tar"),
    "twice.csv.gz": (gzip.compress(gzip.compress(TEXT)), "contains gzip", "decompress it once"),
    "f.parquet.gz": (gzip.compress(of_arrow("parquet")), "contains a Parquet file", "parquet"),
    "f.csv.xz": (lzma.compress(TEXT), "is an xz file", "decompress it with xz -d, or"),
    "f.lzma": (lzma.compress(TEXT, lzma.FORMAT_ALONE), "is an LZMA file", "with xz -d"),
    "f.csv.lz4": (pa.compress(TEXT, "lz4", asbytes=True), "is an LZ4 frame", "lz4 -d"),
    "f.snappy": (b"\xff\x06\x00\x00sNaPpY\x01", "is a Snappy frame", "gzip, bzip2 or zstd"),
    "raw.snappy": (pa.compress(TEXT, "snappy", asbytes=True), "not compressed with", "raw"),
    "f.csv.Z": (b"\x1f\x9d\x90\x61", "is a file of compress", "gzip -d"),
    "f.7z": (b"7z\xbc\xaf\x27\x1c\x00\x04", "is a 7z archive", "7z x"),
    "f.parquet": (of_arrow("parquet"), "is a Parquet file", "a source of type: parquet"),
    "f.orc": (of_arrow("orc"), "is an ORC file", "a source of type: orc"),
    "f.arrow": (of_arrow("feather"), "is an Arrow file", "convert it to Parquet"),
    "f.arrows": (of_arrow("stream"), "is an Arrow stream", "convert it to Parquet"),
    "f.avro": (b"Obj\x01\x04\x14avro.codec", "is an Avro file", "convert it to Parquet"),
    "f.db": (b"SQLite format 3\x00", "is a SQLite database", "type: jdbc"),
    "f.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "save it as CSV"),
    "le.csv": (TEXT.decode().encode("utf-16"), "text is UTF-16LE, not UTF-8", "UTF-16LE, lineSep"),
    "be.csv": (TEXT.decode().encode("utf-16-be"), "text is UTF-16BE", "iconv -f UTF-16 -t UTF-8"),
    "32.csv": (TEXT.decode().encode("utf-32"), "text is UTF-32LE", "iconv -f UTF-32 -t UTF-8"),
    "le.csv.gz": (gzip.compress(TEXT.decode().encode("utf-16")), "text is UTF-16LE", "iconv"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_with_their_format_and_the_fix(name: str):
    content, problem, fix = REFUSED[name]
    found = problem_of(name, content)
    assert problem in found
    assert fix in found
    assert found.isprintable()


def test_a_declared_encoding_is_the_one_of_the_text():
    content = TEXT.decode().encode("utf-16")
    for encoding in ("UTF-16LE", "utf-16le", "UTF_16"):
        assert not problem_of("f.csv", content, encoding)
    assert "UTF-16LE, not ISO-8859-1" in problem_of("f.csv", content, "ISO-8859-1")


def test_spark_4_0_lacks_some_endings():
    for name in ("f.csv.zst", "f.csv.zstd", "f.gzip"):
        found = problem_of(name, READ[name], version="4.0.1")
        assert found.startswith("Spark 4.0.1 cannot read files with the ending .")
    assert not problem_of("f.csv.gz", READ["f.csv.gz"], version="4.0.1")


def csv(**fields: Any) -> dict[str, Any]:
    return {"type": "csv", "path": "in", "header": True, "columns": "a INT, b STRING", **fields}


def write(lab: Lab, name: str, content: bytes) -> Path:
    path = lab.file(f"in/{name}", "")
    path.write_bytes(content)
    return path


@pytest.mark.usefixtures("long")
def test_every_compression_that_spark_knows_is_read(lab: Lab):
    names = [name for name in READ if name not in ("nul.csv", "letters.csv", "orc.csv")]
    for name in names:
        write(lab, name, READ[name])
    for codec in ("lz4", "snappy", "deflate", "gzip", "bzip2"):
        frame = lab.spark.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'").coalesce(1)
        frame.write.csv(str(lab.root / codec), header=True, compression=codec)
        (file,) = (lab.root / codec).glob("part-*")
        file.rename(lab.root / "in" / file.name)
    load(lab, csv(), "SELECT a, b, count(*) AS n FROM source GROUP BY a, b")
    full = len([name for name in names if not name.startswith("empty")]) + 5
    assert lab.rows("ods.t") == [(1, "x", full), (2, "y", full), (3, "z", 2)]


def test_an_unreadable_file_fails_its_window_in_every_mode_and_format(lab: Lab):
    path = write(lab, "f.csv", bz2.compress(TEXT))
    for source in (csv(), csv(mode="PERMISSIVE"), csv(columns=None), json_lines(path="in/*.csv")):
        assert f"{path}: the file is compressed with bzip2" in refused(lab, source)
    path.write_bytes(TEXT)
    load(lab, csv())
    assert lab.rows("ods.t") == [(1, "x"), (2, "y")]


def test_files_of_an_object_store_are_refused_too(lab: Lab, lake: Lake):
    lab.settings.update(lake.settings(lab.root))
    for name in ("day=1/_hidden.csv", "day=1/.hidden.csv"):
        write(lab, name, gzip.compress(TEXT))
    write(lab, "day=1/one.csv", TEXT)
    write(lab, "day=2/two.csv", TEXT)
    url = lake.url(lab.root / "in")
    load(lab, csv(path=url, columns="a INT, b STRING, day INT"))
    assert len(lab.rows("ods.t")) == 4
    write(lab, "day=2/zip.csv", archived("zip"))
    problem = f"{url}/day=2/zip.csv: the file is a ZIP archive"
    before = lake.faults.requests["GetObject"]
    for path in (url, f"{url}/*/*.csv"):
        assert problem in refused(lab, csv(path=path, columns="a INT, b STRING, day INT"))
    assert lake.faults.requests["GetObject"] == before + 1  # of the only new file
    assert problem in refused(lab, csv(path=f"{url}/day=2/zip.csv"))


def test_files_of_an_object_store_are_listed_once_for_all_checks_of_a_window(lab: Lab, lake: Lake):
    lab.settings["storage"] = lake.settings(lab.root)["storage"]
    write(lab, "f.json", b'{"a": 1}')

    def count_listings(source: dict[str, Any]) -> int:
        before = lake.faults.requests["ListObjectsV2"]
        load(lab, source | {"path": lake.url(lab.root / "in")}, "SELECT 1 AS n FROM source")
        return lake.faults.requests["ListObjectsV2"] - before

    of_lines = count_listings({"type": "text"})
    assert count_listings({"type": "json", "columns": "a INT"}) == of_lines > 0
