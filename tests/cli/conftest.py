"""The command line in this process, and a small project whose three days end on 2022-01-04."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from logdriven_dagster.cli import main
from logdriven_dagster.config.scaffolding.new_project import scaffold
from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


CommandLine: TypeAlias = Callable[..., Result]


@pytest.fixture
def logdriven(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """`logdriven("plan", "--json")` runs the command line in this process."""
    for name in ("LOGDRIVEN_PROJECT", "LOGDRIVEN_RUN_LOG", "LOGDRIVEN_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["logdriven", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return command


@pytest.fixture(scope="session")
def new_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project that `init` makes on 2022-01-04, for copies of it."""
    folder = tmp_path_factory.mktemp("new") / "shop"
    scaffold(folder, date(2022, 1, 4))
    return folder


@pytest.fixture
def shop(new_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project that `init` makes on 2022-01-04, as the current folder."""
    folder = tmp_path / "shop"
    shutil.copytree(new_shop, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def null_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project without tables as the current folder, whose windows run on the null engine."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "logdriven.yaml").write_text("project: p\ntimezone: UTC\n")
    with null_engine(NullEngine()):
        yield tmp_path
