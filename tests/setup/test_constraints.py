"""What `make install` brings is pinned, and every file of it by its hash."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("constraints.txt", "scripts/build.txt", "scripts/uv.txt")


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_hashes_and_no_index_is_named(name):
    text = (ROOT / name).read_text()
    pins = re.split(r"\n(?=\S)", text.strip())
    assert pins
    for pin in pins:
        assert re.match(r"[a-z0-9._-]+(\[.*\])?==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin
    assert "://" not in text


def test_make_installs_by_them_alone():
    makefile = (ROOT / "Makefile").read_text()
    assert "--constraint constraints.txt --build-constraint scripts/build.txt" in makefile
    assert "--require-hashes" in makefile
    assert "pip install" not in makefile.replace("$(BIN)/uv pip install", "").replace(
        "-m pip install --quiet --disable-pip-version-check --require-hashes", ""
    )


def test_sqlglot_has_an_upper_bound():
    """Its trees change with every major version, and queries are understood by them."""
    assert re.search(r'"sqlglot>=[\d.]+,<\d+"', (ROOT / "pyproject.toml").read_text())
