"""The windows that `logdriven refresh` names: a range, one window, or the newest ones."""

from pathlib import Path

import pytest

from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.clock_changes import null_table

NOW = ("--now", "2022-01-06")


@pytest.fixture
def folder(null_project: Path, logdriven) -> Path:
    """A table with five days, of which the third one was skipped."""
    (null_project / "tables/a.yaml").write_text(null_table("t.a", "1 day", "2022-01-01"))
    logdriven("run", "--now", "2022-01-03")
    logdriven("skip", "t.a", "--window", "2022-01-03", "--reason", "lost", *NOW)
    logdriven("run", *NOW)
    return null_project


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (["--from", "2022-01-01", "--to", "2022-01-03"], [1, 2]),
        (["--window", "2022-01-02"], [2]),
        (["--window", "2022-01-03"], [3]),  # a refresh also runs a skipped window
        (["--last", "1"], [5]),
        (["--last", "3"], [2, 4, 5]),
        (["--last", "9"], [1, 2, 4, 5]),
    ],
)
def test_a_refresh_runs_a_range_one_window_or_the_newest_finished_ones(
    folder, logdriven, options, days
):
    done = logdriven("refresh", "t.a", *options, "--json", *NOW)
    assert done.code == 0
    starts = [window["data_range_start"][:10] for window in done.json["windows"]]
    assert starts == [f"2022-01-0{n}" for n in days]


def test_a_failed_refresh_of_a_skipped_window_claims_no_published_rows(folder, logdriven):
    engine = NullEngine()
    engine.fail("t.a")
    with null_engine(engine):
        failed = logdriven("refresh", "t.a", "--window", "2022-01-03", *NOW)
    assert "only the refresh failed: the table is unchanged" in failed.out
    assert "published" not in failed.out + logdriven("status", *NOW).out


def test_the_newest_windows_of_an_earlier_grid_run_as_they_are(folder, logdriven):
    (folder / "tables/a.yaml").write_text(null_table("t.a", "12 hours", "2022-01-01"))
    logdriven("run", "--now", "2022-01-06T12:00")
    done = logdriven("refresh", "t.a", "--last", "2", "--json", "--now", "2022-01-06T12:00")
    spans = [(w["data_range_start"][:16], w["data_range_end"][:16]) for w in done.json["windows"]]
    assert spans == [
        ("2022-01-05T00:00", "2022-01-06T00:00"),
        ("2022-01-06T00:00", "2022-01-06T12:00"),
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "give one of: --from with --to, --window, --last"),
        (["--last", "1", "--window", "2022-01-02"], "give one of"),
        (["--last", "1", "--to", "2022-01-02"], "give one of"),
        (["--from", "2022-01-02"], "needs --from and --to"),
        (["--to", "2022-01-02"], "needs --from and --to"),
        (["--window", "2022-01-02 06:00"], "[2022-01-02, 2022-01-03)"),
        (["--last", "0"], "--last"),
    ],
)
def test_other_combinations_of_these_options_are_refused(folder, logdriven, options, problem):
    refused = logdriven("refresh", "t.a", *options, *NOW)
    assert refused.code == 2
    assert problem in " ".join(refused.err.replace("│", "").split())


def test_a_table_without_a_finished_window_has_no_newest_one(folder, logdriven):
    (folder / "tables/b.yaml").write_text(null_table("t.b", "1 day", "2022-01-01"))
    refused = logdriven("refresh", "t.b", "--last", "1", *NOW)
    assert refused.code == 2
    assert "t.b has no finished window; run it with `logdriven run`" in refused.err
