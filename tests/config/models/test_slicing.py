"""What each incremental type asks of a table's file, and what it rules out."""

from typing import Any

import pytest
from pydantic import ValidationError

from logdriven_dagster.model.windows import Along
from tests.builders import STEP, at, table
from tests.config.sliced_tables import KEYS, LINES, TOPIC, TYPES, sliced


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_needs_little(kind: str):
    config = sliced(kind)
    assert config.is_sliced
    assert config.grid.index(at("2022-01-02")) - config.grid.index(at("2022-01-01")) == 1


def test_only_keys_name_their_slices():
    assert {kind: sliced(kind).along for kind in TYPES} == {
        "auto_inc_id": Along.KEYS,
        "kafka_offset": Along.OFFSETS,
        "files": Along.BATCHES,
        "upstream": Along.BATCHES,
    }


@pytest.mark.parametrize(
    ("kind", "start", "stored"),
    [
        ("auto_inc_id", 7, 7),
        ("auto_inc_id", "10000000000000000000", 10**19),
        ("auto_inc_id", -5, -5),
        ("kafka_offset", "latest", "latest"),
        (
            "kafka_offset",
            {"b": {"10": 1, "9": 2}, "a": {"0": 3}},
            '{"a":{"0":3},"b":{"9":2,"10":1}}',
        ),
    ],
)
def test_default_start_is_a_key_or_offsets(kind: str, start: Any, stored: Any):
    assert sliced(kind, default_start=start).default_start == stored


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        ("auto_inc_id", {"default_start": "2022-01-01"}, "must be a whole number"),
        ("auto_inc_id", {"steps": [STEP]}, "needs one step whose source has a key_column"),
        ("auto_inc_id", {"steps": [KEYS, {**KEYS, "step": "again"}]}, "found 2"),
        ("auto_inc_id", {"overlap": 5}, "needs targets of mode upsert"),
        ("auto_inc_id", {"max_batches": 5}, "max_batches: only for incremental_type files"),
        ("kafka_offset", {"default_start": "first"}, "must be earliest, latest or offsets"),
        ("kafka_offset", {"default_start": {"t": {"0": -1}}}, "partition '0' has -1"),
        ("kafka_offset", {"window_size": 5}, "window_size: only for incremental_type auto_inc_id"),
        ("kafka_offset", {"ordered": False}, "cannot be false"),
        ("kafka_offset", {"lookback": 1}, "lookback: only for time windows"),
        ("files", {"default_start": 5}, "tables of type files take all new deliveries"),
        ("files", {"catch_up": "latest_only"}, "windows of type files cannot be skipped"),
        ("files", {"end": "2022-01-01"}, "end: not allowed for files"),
        ("files", {"steps": [STEP]}, "needs one step with a source of files"),
        ("upstream", {"depends_on": []}, "needs a table in depends_on that provides"),
        ("upstream", {"depends_on": [{"table": "a", "step": "x"}]}, "unknown step x"),
        ("time", {"steps": [TOPIC]}, "needs incremental_type kafka_offset"),
        ("time", {"steps": [KEYS]}, "key_column needs incremental_type auto_inc_id"),
        ("time", {"default_start": None}, "default_start: a table needs a first window"),
        (
            "time",
            {"depends_on": [{"table": "a", "cut_pattern": "x"}]},
            "for incremental_type upstream",
        ),
    ],
)
def test_what_contradicts_the_type_is_refused(kind: str, fields: dict[str, Any], problem: str):
    with pytest.raises(ValidationError) as refused:
        table(**fields) if kind == "time" else sliced(kind, **fields)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"after_success": "move"}, "after_success: move and move_to belong together"),
        ({"on_empty": "succeed"}, "on_empty: succeed needs columns"),
        ({"window_column": "at"}, "source.window_column is only for time windows"),
    ],
)
def test_sources_of_files(source: dict[str, Any], problem: str):
    step = {**LINES, "source": {**LINES["source"], **source}}
    with pytest.raises(ValidationError, match=problem):
        sliced("files", steps=[step])


def test_options_of_registered_files_are_refused_elsewhere():
    step = {**LINES, "source": {**LINES["source"], "after_success": "delete"}}
    with pytest.raises(ValidationError, match="after_success: only for incremental_type files"):
        table(steps=[step])
