"""The program of Sail's server: `python -I -S program.py FOLDER_OF_PYSAIL`.

It imports no package except pysail, so that versions of dependencies cannot conflict with ours. It
prints version and port on standard output, and ends when its standard input is closed: with the
process that started it.
"""

import importlib.util
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Serve until the standard input ends."""
    spec = importlib.util.spec_from_file_location(
        "pysail", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["pysail"] = package
    spec.loader.exec_module(package)
    server = importlib.import_module("pysail.spark").SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    print(package.__version__, port, flush=True)  # noqa: T201 - for the process that waits for it
    sys.stdin.buffer.read()
    server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
