"""An archive of Spark's classes, with which most JVMs of the tests start faster.

`python -m tests.classes` makes it in the virtual environment, once: `make test` calls it.
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""It starts fastest, and tests end before the second one pays off.

Alone it has room for 48 MB of code; hundreds of tests fill it, and the JVM would then throw code
away and compile it again (findings/jvm_code_cache.sh). 240 MB are what both compilers have.
"""


def java_options() -> str:
    """What every JVM of the tests starts with, as `JAVA_TOOL_OPTIONS` has it."""
    if not ARCHIVE.exists():
        return FIRST_COMPILER
    # A JVM whose classes come from elsewhere does without, and need not say so.
    return f"{FIRST_COMPILER} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make() -> None:
    """Make the archive, unless Java keeps its archives in another way."""
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine.spark.classic.archives import training

    with TemporaryDirectory() as folder:
        os.environ |= {"XDG_CACHE_HOME": folder, "JAVA_TOOL_OPTIONS": FIRST_COMPILER}
        Path(folder, "logdriven.yaml").write_text("project: tests\n")
        made = training.train(load_project(folder))
        if made.file.suffix == ARCHIVE.suffix:
            training.copy_archive(made.file, ARCHIVE)


if __name__ == "__main__" and shutil.which("java"):
    make()
