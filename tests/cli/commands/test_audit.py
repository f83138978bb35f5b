"""`status` shows where the rows of sources belonged when somebody looked last."""

from dataclasses import replace

from logdriven_dagster.cli.commands import audit as audit_commands
from logdriven_dagster.config import load_project
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import audits

ROWS = SourceRows("ods.orders", "load", total=2222, unplaced=2, before=1, after=0, future=0)
SENTENCE = (
    "3 of 2,222 rows belong to no window: 2 with NULL or an invalid value, "
    "1 before the first window"
)


def test_status_tells_of_rows_of_no_window(shop, logdriven):
    with RunLog.open(load_project(shop).run_log_url).begin() as conn:
        audits.record(conn, replace(ROWS, unplaced=0))
        audits.record(conn, ROWS)
    assert f"ods.orders · load: {SENTENCE}" in logdriven("status").out
    (source,) = logdriven("status", "--json").json["sources"]
    assert (source["table"], source["total"], source["lost"]) == ("ods.orders", 2222, 3)


def test_an_audit_shows_a_line_for_each_source(capsys):
    rows = replace(ROWS, done=1800, read=1795)
    audit_commands._print([rows])
    lines = capsys.readouterr().out.splitlines()
    numbers = next(line for line in lines if "ods.orders · load " in line).split()[3:]
    assert numbers == ["2,222", "1,800", "1,795", "419", "0", "2", "1", "0", "5"]
    assert any(f"{SENTENCE}; 5 rows came after their windows had run" in line for line in lines)


def test_a_table_without_a_window_column_cannot_be_audited(shop, logdriven):
    (shop / "tables/plain.yaml").write_text(
        "table: plain\nperiod: 1 day\ndefault_start: 2022-01-01\n"
        "steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]\n"
    )
    result = logdriven("audit", "plain")
    assert result.code == 2
    assert "no source of it names a window_column" in result.err.replace("\n", " ")
