"""A WebHDFS server over a folder: what a JVM without S3A reads and writes a bucket by.

`webhdfs.py FOLDER PORT`. Hadoop's client for it is among PySpark's jars, so Spark gets to the
bucket over the network, as it would by S3A; only the protocol is another one.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from scripts.lake.serving import Answer, Request, serve

_ROOT = "/webhdfs/v1"
_BLOCK = 128 << 20


class WebHdfs:
    """Answers what Spark asks of a file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def operation(self, request: Request) -> str:
        return request.query.get("op", "").upper()

    def answer(self, operation: str, request: Request) -> Answer:
        path = self._path(request.path)
        try:
            answer: Answer = getattr(self, f"_{operation.lower()}", self._done)(path, request)
        except FileNotFoundError as error:
            return _refused(404, "java.io.FileNotFoundException", str(error))
        except OSError as error:
            return _refused(403, "java.io.IOException", str(error))
        return answer

    def failure(self, status: int) -> Answer:
        return _refused(status, "java.io.IOException", "asked to fail")

    def _path(self, name: str) -> Path:
        return self._folder / name.removeprefix(_ROOT).strip("/")

    def _getfilestatus(self, path: Path, _: Request) -> Answer:
        return _json({"FileStatus": _status(path, "")})

    def _liststatus(self, path: Path, _: Request) -> Answer:
        return _json(_listed(path))

    def _liststatus_batch(self, path: Path, _: Request) -> Answer:
        return _json({"DirectoryListing": {"partialListing": _listed(path), "remainingEntries": 0}})

    def _getfileblocklocations(self, path: Path, _: Request) -> Answer:
        path.stat()
        return _json({"BlockLocations": {"BlockLocation": []}})

    def _open(self, path: Path, request: Request) -> Answer:
        file = path.open("rb")
        begin = file.seek(int(request.query.get("offset", 0)))
        left = path.stat().st_size - begin
        length = min(left, int(request.query.get("length", left)))
        return Answer(
            headers={"Content-Type": "application/octet-stream"}, file=file, length=length
        )

    def _create(self, path: Path, request: Request) -> Answer:
        if "data" not in request.query:
            here = (
                f"http://{request.headers['Host']}{request.raw_path}?{request.raw_query}&data=true"
            )
            return Answer(307, headers={"Location": here})
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and request.query.get("overwrite") == "false":
            raise FileExistsError(path)
        path.write_bytes(request.body)
        return Answer(201)

    def _mkdirs(self, path: Path, _: Request) -> Answer:
        path.mkdir(parents=True, exist_ok=True)
        return _json({"boolean": True})

    def _rename(self, path: Path, request: Request) -> Answer:
        to = self._folder / request.query["destination"].strip("/")
        if to.is_dir():  # as HDFS does
            to = to / path.name
        possible = path.exists() and to.parent.is_dir() and not to.exists()
        if possible:
            path.rename(to)
        return _json({"boolean": possible})

    def _delete(self, path: Path, request: Request) -> Answer:
        there = path.exists()
        if path.is_dir():
            if request.query.get("recursive") != "true" and any(path.iterdir()):
                raise OSError(f"{path} is not empty")
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return _json({"boolean": there})

    def _done(self, *_: Any) -> Answer:
        """Owners, permissions and times are nobody's here."""
        return Answer()


def _listed(path: Path) -> dict[str, Any]:
    if path.is_file():
        found = [_status(path, "")]
    else:
        found = [_status(each, each.name) for each in sorted(path.iterdir())]
    return {"FileStatuses": {"FileStatus": found}}


def _status(path: Path, suffix: str) -> dict[str, Any]:
    stat = path.stat()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": 0 if path.is_dir() else stat.st_size,
        "modificationTime": int(stat.st_mtime * 1000),
        "accessTime": 0,
        "blockSize": _BLOCK,
        "replication": 1,
        "permission": "755",
        "owner": "root",
        "group": "root",
        "fileId": stat.st_ino,
        "childrenNum": 0,
        "storagePolicy": 0,
    }


def _json(value: Any, status: int = 200) -> Answer:
    """Answer without a type: Hadoop's client reads types by classes that PySpark's jars lack."""
    return Answer(status, json.dumps(value).encode())


def _refused(status: int, exception: str, message: str) -> Answer:
    name = exception.rpartition(".")[2]
    told = {"exception": name, "javaClassName": exception, "message": message}
    return _json({"RemoteException": told}, status)


if __name__ == "__main__":
    serve(WebHdfs(Path(sys.argv[1])), "0.0.0.0", int(sys.argv[2]))
