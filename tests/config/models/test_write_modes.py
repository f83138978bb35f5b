"""Write modes: what follows from the word that a file has."""

import re
from pathlib import Path
from typing import get_args

import pytest

import logdriven_dagster
from logdriven_dagster.config.models.types.registered import TARGETS
from logdriven_dagster.config.models.types.write_modes import WriteMode, write_mode

PACKAGE = Path(logdriven_dagster.__file__).parent
WORDS = ("append", "overwrite_window", "overwrite", "upsert", "history")


def test_every_word_that_a_target_takes_is_a_mode():
    taken = {word for each in TARGETS for word in get_args(each.model_fields["mode"].annotation)}
    assert taken == set(WORDS)
    assert [write_mode(word).name for word in WORDS] == [*WORDS]


@pytest.mark.parametrize(
    ("word", "capabilities"),
    [
        ("append", {"keeps_windows_apart"}),
        ("overwrite_window", {"keeps_windows_apart", "replaces_own_range"}),
        ("overwrite", {"replaces_whole_table"}),
        ("upsert", {"merges_by_key"}),
        ("history", {"merges_by_key", "keeps_history"}),
        ("a_word_of_a_package", {"keeps_windows_apart"}),
    ],
)
def test_a_mode_declares_its_effect_on_published_rows(word: str, capabilities: set[str]):
    names = [*WriteMode.__dataclass_fields__, "keeps_windows_apart"]
    found = {name for name in names if getattr(write_mode(word), name) is True}
    assert found == capabilities


def test_nothing_else_compares_the_words():
    # Importers read the modes of other programs, which are words of theirs.
    compares = re.compile(rf"\bmode\b.{{0,4}} (?:[!=]=|in|not in) \(?\"(?:{'|'.join(WORDS)})\"")
    found = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if compares.search(path.read_text()) and "importers" not in path.parts
    ]
    assert found == []
