"""A folder as a bucket of S3: keys are files, also those that somebody else writes there.

An object is there as a whole or not at all, and a condition on its entity tag is checked and the
object put in one step. Empty folders are no objects, and a folder goes with its last object.
"""

import hashlib
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

UPLOADS = ".s3-uploads"
"""Holds what is not there yet; on the file system of the bucket, so that it can be linked."""


class S3Error(Exception):
    """What S3 answers with, by its code."""

    def __init__(self, code: str, status: int, message: str = "", **details: str) -> None:
        super().__init__(message or code)
        self.code, self.status, self.details = code, status, details


@dataclass(frozen=True)
class Entry:
    """An object of a listing, or a common prefix of several."""

    key: str
    stat: os.stat_result | None = None


def etag(stat: os.stat_result) -> str:
    """An entity tag that changes with every write, whoever wrote; not the MD5 of the content."""
    version = f"{stat.st_ino} {stat.st_mtime_ns} {stat.st_size}"
    return f'"{hashlib.md5(version.encode(), usedforsecurity=False).hexdigest()}-1"'


class Bucket:
    """The objects of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._markers: set[str] = set()
        (folder / UPLOADS).mkdir(parents=True, exist_ok=True)

    def file(self, key: str) -> Path:
        """The file of a key that is there."""
        path = self._path(key)
        if not (path.is_dir() and key in self._markers if key.endswith("/") else path.is_file()):
            raise S3Error("NoSuchKey", 404, f"The specified key does not exist: {key}")
        return path

    def put(self, key: str, content: bytes, match: str | None, none_match: str | None) -> str:
        """Put an object as a whole if its conditions hold; its entity tag."""
        if key.endswith("/"):
            return self._mark(key)
        made = self.folder / UPLOADS / uuid.uuid4().hex
        made.write_bytes(content)
        return self._publish(made, key, match, none_match)

    def copy(self, key: str, source: Path) -> str:
        made = self.folder / UPLOADS / uuid.uuid4().hex
        shutil.copyfile(source, made)
        return self._publish(made, key, None, None)

    def _publish(self, made: Path, key: str, match: str | None, none_match: str | None) -> str:
        path = self._path(key)
        now = time.time_ns()
        os.utime(made, ns=(now, now))  # file systems count the time in ticks that two writes share
        tag = etag(made.stat())
        try:
            with self._lock:
                path.parent.mkdir(parents=True, exist_ok=True)
                if none_match:
                    os.link(made, path)
                    return tag
                if match:
                    self._compare(key, match)
                made.replace(path)
                return tag
        except FileExistsError as error:
            raise _precondition("If-None-Match") from error
        except (NotADirectoryError, IsADirectoryError) as error:
            raise S3Error("InvalidRequest", 400, f"{key} is a folder and a file") from error
        finally:
            made.unlink(missing_ok=True)

    def delete(self, key: str, match: str | None = None) -> None:
        path = self._path(key)
        with self._lock:
            if match:
                self._compare(key, match)
            self._markers.discard(key)
            if path.is_file():
                path.unlink(missing_ok=True)
            self._prune(path if key.endswith("/") else path.parent)

    def _compare(self, key: str, match: str) -> None:
        if match not in {"*", etag(self.file(key).stat())}:
            raise _precondition("If-Match")

    def _mark(self, key: str) -> str:
        with self._lock:
            self._path(key).mkdir(parents=True, exist_ok=True)
            self._markers.add(key)
        return etag(self._path(key).stat())

    def _prune(self, folder: Path) -> None:
        """Remove folders that hold nothing more, as a prefix goes with its last key."""
        while folder != self.folder and f"{folder.relative_to(self.folder)}/" not in self._markers:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            folder = folder.parent

    def _path(self, key: str) -> Path:
        parts = key.rstrip("/").split("/")
        if not key or {"", ".", ".."} & set(parts) or parts[0] == UPLOADS:
            raise S3Error("InvalidRequest", 400, f"This server keeps no key {key!r}")
        return self.folder.joinpath(*parts)

    def start_upload(self) -> str:
        upload = uuid.uuid4().hex
        (self.folder / UPLOADS / upload).mkdir()
        return upload

    def put_part(self, upload: str, number: int, content: bytes) -> str:
        part = self._upload(upload) / str(number)
        part.write_bytes(content)
        return etag(part.stat())

    def complete(
        self, upload: str, numbers: list[int], key: str, match: str | None, none_match: str | None
    ) -> str:
        """Put the parts as one object if its conditions hold; its entity tag."""
        folder = self._upload(upload)
        made = self.folder / UPLOADS / uuid.uuid4().hex
        with made.open("wb") as whole:
            for number in numbers:
                if not (folder / str(number)).is_file():
                    raise S3Error("InvalidPart", 400, f"part {number} was not uploaded")
                whole.write((folder / str(number)).read_bytes())
        tag = self._publish(made, key, match, none_match)
        shutil.rmtree(folder, ignore_errors=True)
        return tag

    def abort(self, upload: str) -> None:
        shutil.rmtree(self._upload(upload), ignore_errors=True)

    def _upload(self, upload: str) -> Path:
        folder = self.folder / UPLOADS / upload
        if not upload.isalnum() or not folder.is_dir():
            raise S3Error("NoSuchUpload", 404, "The specified upload does not exist")
        return folder

    def entries(self, prefix: str, delimiter: str, after: str) -> Iterator[Entry]:
        """Objects and common prefixes behind `after`, in the order of S3."""
        said = ""
        for key, stat in self._walk("", prefix, delimiter, after):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            common = key[: end + len(delimiter)] if end >= 0 else ""
            if key <= after or (common and common in {said, after}):
                continue
            said = common or said
            yield Entry(common) if common else Entry(key, stat)

    def _walk(
        self, base: str, prefix: str, delimiter: str, after: str
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Keys below a folder; of a folder that is one common prefix only the first."""
        if base in self._markers and base.startswith(prefix):
            with suppress(FileNotFoundError):
                yield base, (self.folder / base).stat()
        for name, entry in sorted(_named(self.folder / base), key=lambda pair: pair[0].encode()):
            key = base + name
            below_it = name.endswith("/") and prefix.startswith(key)
            if not (key.startswith(prefix) or below_it) or key == f"{UPLOADS}/":
                continue
            if not name.endswith("/"):
                with suppress(FileNotFoundError):
                    yield key, entry.stat()
            elif not (key < after and not after.startswith(key)):
                below = self._walk(key, prefix, delimiter, after)
                if delimiter == "/" and key.startswith(prefix) and key != prefix:
                    yield from _first(below, after)
                else:
                    yield from below


def _named(folder: Path) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        for entry in found:
            yield entry.name + ("/" if entry.is_dir() else ""), entry


def _first(
    keys: Iterator[tuple[str, os.stat_result]], after: str
) -> Iterator[tuple[str, os.stat_result]]:
    for each in keys:
        if each[0] > after:
            yield each
            return


def _precondition(condition: str) -> S3Error:
    message = "At least one of the pre-conditions you specified did not hold"
    return S3Error("PreconditionFailed", 412, message, Condition=condition)
