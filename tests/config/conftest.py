"""A project folder: write its files, load it, or get its mistakes."""

import textwrap

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import InvalidProjectError

TABLE = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    {extra}
    steps:
      - step: load
        sql: {sql}
        target: {{type: iceberg}}
"""


@pytest.fixture
def folder(tmp_path):
    """A project folder; write files by their path, load it, or get its mistakes."""
    return Folder(tmp_path)


class Folder:
    def __init__(self, root):
        self.root = root
        self.write("logdriven.yaml", "project: p")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).strip() + "\n")
        return self

    def table(self, name, extra="description: none", sql="SELECT 1 AS one"):
        text = textwrap.dedent(TABLE).format(name=name, extra=extra, sql=sql)
        return self.write(f"tables/{name.replace('/', '_')}.yaml", text)

    def load(self):
        return load_project(self.root)

    def mistakes(self):
        with pytest.raises(InvalidProjectError) as caught:
            self.load()
        return str(caught.value).replace(f"{self.root}/", "")
