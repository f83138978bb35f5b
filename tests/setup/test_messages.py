"""tests/messages.txt lists the texts that users can see, as they are in the source."""

import difflib

import pytest

from scripts import messages


def test_the_listing_of_messages_is_up_to_date() -> None:
    written, now = messages.LISTING.read_text().splitlines(), messages.listing().splitlines()
    diff = "\n".join(difflib.unified_diff(written, now, "tests/messages.txt", "source", n=1))
    assert not diff, f"{diff}\n\nrun `python -m scripts.messages`"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            'raise UsageError(f"{table.name}: no step {step}" f"; {hint}")',
            "{name}: no step {step}; {hint}",
        ),
        ('log.warning("no answer from %s", host)', "no answer from %s"),
        ('"first part, " + tail(x)', "first part, {x}"),
        ("f\"known are {', '.join(sorted(names))}\"", "known are {names}"),
        ('echo("first\\n  second line")', "first ⏎ second line"),
    ],
)
def test_a_text_is_listed_with_placeholders(source: str, found: str) -> None:
    assert messages.messages(source) == [found]


def test_texts_within_a_placeholder_are_listed_by_themselves() -> None:
    source = "f\"{count} rows {'are left' if left else 'have been read'}\""
    assert messages.messages(source) == ["are left", "have been read", "{count} rows {…}"]


@pytest.mark.parametrize(
    "source",
    [
        '"""Describe the module."""',
        'x: "Mapping[str, object]" = {}',
        'run(f"SELECT {column} FROM {table} WHERE id = 1")',
        'open("plain")',
    ],
)
def test_docstrings_type_hints_and_sql_are_not_listed(source: str) -> None:
    assert messages.messages(source) == []


def test_keys_of_metadata_are_labels() -> None:
    source = '{"rows_read": 1}\nmetadata["rows_written"] = 2'
    assert messages.messages(source, has_labels=True) == ["rows_read", "rows_written"]
    assert messages.messages(source) == []


def test_a_template_is_listed_by_its_texts() -> None:
    source = (
        "<style>a {}</style><p>{% if x %}No rows.{% endif %}</p>\n{{ name }}\n<b>{{ n }} rows</b>"
    )
    assert messages.template_texts(source) == ["No rows.", "{{ n }} rows"]
