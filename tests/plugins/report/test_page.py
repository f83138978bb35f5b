"""The daily report as CSV and as a page: S40 of the checklist."""

import csv
import io
import json
import time
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.plugins.report import data as reports
from logdriven_dagster.plugins.report.flow import MOST_TABLES, flow
from logdriven_dagster.plugins.report.heat_map import MOST_COLUMNS
from logdriven_dagster.plugins.report.longest_chain import find_longest_chain
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from tests.builders import at
from tests.recipients import mail_server

START, END = at("2026-11-20", "Europe/Berlin"), at("2026-11-21", "Europe/Berlin")
TABLE = """
table: {name}
period: 1 day
default_start: 2022-01-01
depends_on: {upstream}
steps: [{{step: load, sql: SELECT 1 AS one, target: {{type: iceberg}}}}]
"""


class Ledger:
    """A project of two tables, whose log is written by hand."""

    def __init__(self, root):
        (root / "tables").mkdir()
        (root / "jobs").mkdir()
        (root / "logdriven.yaml").write_text("project: shop\ntimezone: Europe/Berlin\n")
        for name, upstream in (("ods.orders", []), ("dws.revenue", ["ods.orders"])):
            text = TABLE.format(name=name, upstream=upstream)
            (root / "tables" / f"{name}.yaml").write_text(text)
        (root / "jobs" / "nightly.yaml").write_text("job: nightly\ntables: [dws.revenue]\n")
        self.root = root
        self.log = open_run_log(self.project)
        self.rows, self.steps = [], []

    @property
    def project(self):
        return load_project(self.root)

    def attempt(self, table, n, status="SUCCESS", *steps, seconds=20, started=None, **fields):
        """One at the n-th day of 2022, with steps (source type, read, target type, written)."""
        job_id = len(self.rows) + 1
        window = datetime(2022, 1, 1, tzinfo=timezone.utc) + timedelta(days=n)
        began = started or datetime(2026, 11, 20, 8, 0)
        row = {
            "job_id": job_id,
            "job_name": table,
            "job_period": 1440,
            "job_schedule_id": f"{table}-{n}",
            "data_range_start": f"{window:%Y%m%d%H%M%S}",
            "data_range_end": f"{window + timedelta(days=1):%Y%m%d%H%M%S}",
            "job_start_time": began,
            "job_end_time": began + timedelta(seconds=seconds),
            "status": status,
            "incremental_type": "time_window",
            "project_name": "shop",
            "window_start": int(window.timestamp()),
            "window_end": int(window.timestamp()) + 86400,
            "fencing_token": job_id,
        }
        self.rows.append(row | fields)
        for number, (source, read, target, written, *error) in enumerate(steps):
            self.steps.append(
                {
                    "job_id": job_id,
                    "step_id": f"s{number}",
                    "status": status,
                    "start_time": began + timedelta(seconds=number),
                    "end_time": began,
                    "duration": seconds // len(steps),
                    "output": "",
                    "source_count": read,
                    "success_count": written,
                    "source_type": source,
                    "target_type": target,
                    "error": error[0] if error else None,
                }
            )
        return self

    def report(self, start=START, end=END, names=()):
        with self.log.begin() as conn:
            if self.rows:
                conn.execute(job_log.insert(), self.rows)
            if self.steps:
                conn.execute(step_log.insert(), self.steps)
        return reports.read_report(self.project, self.log, start, end, names)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path)


def test_the_csv_has_the_columns_of_sharp_etl_and_a_line_for_each_attempt_s40(ledger):
    """The original's own test: hive and postgres, ten rows in twenty seconds."""
    for name in ("ods.orders", "dws.revenue"):
        steps = (("hive", 10, "hive", 10), ("hive", 10, "postgres", 10))
        ledger.attempt(name, 39, "SUCCESS", *steps)
    assert ledger.report().as_csv() == (
        "projectName,workflowName,jobId,dataRangeStart,dataRangeEnd,jobStartTime,jobStatus,"
        "duration(seconds),dataFlow,to-hive,to-postgres,failStep,errorMessage\n"
        "shop,dws.revenue,2,2022-02-09 00:00:00,2022-02-10 00:00:00,2026-11-20 09:00:00,SUCCESS,"
        "20,hive(10) -> postgres(10),10,10,,\n"
        "shop,ods.orders,1,2022-02-09 00:00:00,2022-02-10 00:00:00,2026-11-20 09:00:00,SUCCESS,"
        "20,hive(10) -> postgres(10),10,10,,\n"
    )


def test_one_step_shows_what_it_read_and_what_it_wrote_s40(ledger):
    line = cells(ledger.attempt("ods.orders", 1, "SUCCESS", ("csv", 24, "iceberg", 20)))
    assert line["dataFlow"] == "csv(24) -> iceberg(20)"
    assert line["to-iceberg"] == "20"


def test_a_failure_names_its_step_and_its_error_on_one_line_s40(ledger):
    steps = (("csv", 1, "iceberg", 0), (None, None, None, None, 'bad "value",\nline 2'))
    line = cells(ledger.attempt("ods.orders", 1, "FAILURE", *steps))
    assert (line["failStep"], line["errorMessage"]) == ("s1", 'bad "value", line 2')


def test_keys_and_offsets_stand_as_they_are(ledger):
    low, high = "5", "20220101000000"  # a key that looks like a time
    fields = {"data_range_start": low, "data_range_end": high, "incremental_type": "auto_inc_id"}
    line = cells(ledger.attempt("ods.orders", 1, **fields))
    assert (line["dataRangeStart"], line["dataRangeEnd"]) == (low, high)


def test_a_spreadsheet_calculates_no_error(ledger):
    step = (None, None, None, None, "=HYPERLINK(1)")
    assert cells(ledger.attempt("ods.orders", 1, "FAILURE", step))["errorMessage"][0] == "'"


def test_a_spreadsheet_calculates_no_cell_and_programs_get_it_as_it_was(ledger):
    step = (None, None, None, None, "=HYPERLINK(1)")
    keys = {"incremental_type": "auto_inc_id"}
    ledger.attempt("ods.orders", 1, "FAILURE", step, data_range_start="@SUM(1)", **keys)
    ledger.attempt("ods.orders", 2, data_range_start="-5", **keys)
    report = ledger.report()
    cells = [cell for line in csv.reader(io.StringIO(report.as_csv())) for cell in line]
    assert {"'@SUM(1)", "-5", "'=HYPERLINK(1)"} <= set(cells)
    assert "'=HYPERLINK" not in report.as_json()


def test_the_day_is_that_of_the_projects_clock_s40(ledger):
    berlin = datetime(2026, 11, 19, 23, 0)  # UTC: midnight in Berlin
    ledger.attempt("ods.orders", 1, started=berlin - timedelta(seconds=1))
    ledger.attempt("ods.orders", 2, started=berlin)
    ledger.attempt("ods.orders", 3, started=berlin + timedelta(days=1))
    assert [row["job_id"] for row in ledger.report().attempts] == [2]


def test_a_job_alone_is_its_tables(ledger):
    ledger.attempt("ods.orders", 1).attempt("dws.revenue", 1)
    report = ledger.report(names=["nightly"])
    assert [row["job_name"] for row in report.attempts] == ["dws.revenue"]
    with pytest.raises(UsageError, match="unknown table or job 'nightyl'"):
        reports.read_report(ledger.project, ledger.log, START, END, ["nightyl"])


def test_the_same_stands_in_json(ledger):
    told = json.loads(ledger.attempt("ods.orders", 1).report().as_json())
    assert (told["project"], told["from"]) == ("shop", "2026-11-20T00:00:00+01:00")
    assert told["attempts"][0]["workflowName"] == "ods.orders"


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=40),
    st.sampled_from(["SUCCESS", "FAILURE"]),
)
def test_any_error_comes_back_from_the_csv_as_one_cell(error, status):
    row = {
        "project_name": "shop",
        "job_name": "t",
        "job_id": 1,
        "data_range_start": None,
        "data_range_end": None,
        "job_start_time": None,
        "status": status,
        "incremental_type": "time_window",
        "steps": [{"step_id": "s", "error": error, "duration": 1, "target_type": None}],
    }
    report = reports.Report(PROJECT, START, END, (row,), ())
    (line,) = csv.DictReader(io.StringIO(report.as_csv()))
    told = " ".join(error.split()) if status == "FAILURE" else ""
    assert line["errorMessage"].removeprefix("'").strip() == told.removeprefix("'").strip()


class _Zoned:
    zone = START.tzinfo


PROJECT = _Zoned()


class _Page(HTMLParser):
    """What a browser would load or run, and which elements stay open."""

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.text = [], [], ""
        self.void = {"meta", "link", "img", "br", "path", "rect"}

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        self.loaded += [value for name, value in attrs if name in ("src", "xlink:href")]
        self.loaded += [name for name in names if name.startswith("on")]
        if tag in ("script", "link", "iframe"):
            self.loaded.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page(report):
    parsed = _Page()
    parsed.feed(report.as_html())
    parsed.close()
    return parsed


def test_the_page_loads_and_runs_nothing_and_every_element_is_closed(ledger):
    ledger.attempt("ods.orders", 1, "FAILURE", ("csv", 1, "iceberg", 0, "broken"))
    ledger.attempt("ods.orders", 1).attempt("dws.revenue", 1, "RUNNING")
    parsed = page(ledger.report())
    assert parsed.open == []
    assert parsed.loaded == []


def test_the_page_shows_the_contents_of_any_error_as_text(ledger):
    evil = "<script>alert('x')</script><img src=x onerror=alert(1)> \" & password=hunter2"
    ledger.attempt("ods.orders", 1, "FAILURE", ("csv", 1, "iceberg", 0, evil))
    report = ledger.report()
    parsed = page(report)
    assert parsed.loaded == []
    assert "<script>alert('x')</script>" in parsed.text
    assert "hunter2" not in report.as_html() + report.as_csv() + report.as_json()


def test_failures_come_first_and_what_recovered_is_folded_away(ledger):
    ledger.attempt("ods.orders", 1, "FAILURE", ("csv", 1, "iceberg", 0, "then it broke"))
    ledger.attempt("ods.orders", 1, started=datetime(2026, 11, 20, 9))
    ledger.attempt("ods.orders", 2, "FAILURE", ("csv", 1, "iceberg", 0, "still broken"))
    html = ledger.report().as_html()
    assert html.index("still broken") < html.index("<details>") < html.index("then it broke")
    assert "1 window failed and succeeded later" in html


def test_a_cell_shows_status_counts_and_duration(ledger):
    html = ledger.attempt("ods.orders", 1, "SUCCESS", ("csv", 24, "iceberg", 20)).report().as_html()
    hint = "ods.orders  2022-01-02 – 2022-01-03\nSUCCESS  20 s\n24 read, 20 written\njob 1"
    assert f'<i class="c ok" title="{hint}"></i>' in html


def test_many_windows_are_cut_to_the_newest_and_the_page_states_it(ledger):
    for n in range(MOST_COLUMNS + 4):
        ledger.attempt("ods.orders", n)
    html = ledger.report().as_html()
    assert html.count('<i class="c ok"') == MOST_COLUMNS
    assert f"The newest {MOST_COLUMNS} windows; 4 older ones are in the CSV file." in html


def test_an_empty_report_states_that_it_is_empty(ledger):
    assert "No window was tried." in page(ledger.report()).text
    assert ledger.report().as_csv().count("\n") == 1


@pytest.mark.usefixtures("long")
def test_the_cost_of_a_report_grows_with_its_attempts_not_with_their_square(ledger):
    for n in range(10_000):
        ledger.attempt(f"ods.t{n % 100}", n // 100, "SUCCESS", ("csv", 24, "iceberg", 24))
    ledger.report()
    began = time.process_time()
    report = reports.read_report(ledger.project, ledger.log, START, END)
    assert len(report.attempts) == 10_000
    report.as_html()
    report.as_csv()
    # About 1.4 s; a CSV writer that went through the steps anew for each attempt took 147.
    assert time.process_time() - began < 20


def test_a_mail_brings_the_report_along(ledger):
    with mail_server() as mail:
        recipient = (
            f"ops: {{type: email, server: '{mail.address}', security: none, from: a, to: b}}"
        )
        with (ledger.root / "logdriven.yaml").open("a") as file:
            file.write(f"recipients: {{{recipient}}}\n")
        reports.send_report(ledger.attempt("ods.orders", 1).report(), ["ops"])
    (sent,) = mail.mails
    names = [part.get_filename() for part in sent.iter_attachments()]
    assert names == ["shop-2026-11-20.csv", "shop-2026-11-20.html"]
    assert sent["Subject"] == "[shop] Report 2026-11-20"
    assert "1 attempts at windows of 1 tables: 1 SUCCESS" in mail.body()


EDGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).filter(lambda edge: edge[0] < edge[1]),
    min_size=1,
    max_size=30,
    unique=True,
)


@given(EDGES)
def test_upstreams_stand_left_of_downstreams_and_no_two_tables_overlap(numbers):
    edges = [(f"t{a}", f"t{b}") for a, b in numbers]
    drawn = flow({f"t{n}": "ok" for n in range(13)}, edges)
    places = {node.table: (node.x, node.y) for node in drawn.nodes}
    assert set(places) == {name for edge in edges for name in edge}
    assert len(set(places.values())) == len(places)
    assert all(places[up][0] + drawn.node_width < places[down][0] for up, down in edges)
    assert all(x + drawn.node_width <= drawn.width for x, _ in places.values())


def test_a_graph_that_is_too_large_to_read_is_not_drawn():
    looks = {f"t{n}": "ok" for n in range(MOST_TABLES + 1)}
    assert flow(looks, [("t0", name) for name in list(looks)[1:]]) is None
    assert flow(looks, []) is None


def cells(ledger):
    (line,) = csv.DictReader(io.StringIO(ledger.report().as_csv()))
    return line


def chain_of(ledger):
    upstreams = {"dws.revenue": ["ods.orders"]}
    return find_longest_chain(ledger.report().attempts, upstreams)


def test_the_longest_chain_of_a_run_has_the_windows_that_had_to_follow_each_other(ledger):
    """Two days side by side: the second one of orders takes longest, then its revenue follows."""
    begin = datetime(2026, 11, 20, 8, 0)
    step = ("csv", 1, "iceberg", 1)
    later = {n: begin + timedelta(seconds=n) for n in (0, 10, 60, 100)}
    run = {"owner": "host:1:2"}
    ledger.attempt("ods.orders", 0, "SUCCESS", step, seconds=5, started=begin, owner="old:1:2")
    ledger.attempt("ods.orders", 1, "SUCCESS", step, seconds=10, started=later[0], **run)
    ledger.attempt("ods.orders", 2, "SUCCESS", step, seconds=50, started=later[10], **run)
    ledger.attempt("dws.revenue", 1, "SUCCESS", step, seconds=20, started=later[10], **run)
    ledger.attempt("dws.revenue", 2, "SUCCESS", step, seconds=30, started=later[60], **run)
    chain = chain_of(ledger)
    found = [(link.table, link.windows, link.seconds) for link in chain.links]
    assert found == [("ods.orders", 2, 60.0), ("dws.revenue", 1, 30.0)]
    assert (chain.windows, chain.seconds, chain.elapsed) == (3, 90.0, 90.0)
    assert [round(link.share, 2) for link in chain.links] == [0.67, 0.33]


def test_nothing_that_ended_has_no_chain(ledger):
    assert chain_of(ledger.attempt("ods.orders", 1, "RUNNING", job_end_time=None)) is None


def test_the_page_plots_the_rows_of_windows_and_shows_the_longest_chain(ledger):
    for n in range(6):
        rows = 9_000 if n == 4 else 100 + n
        ledger.attempt("ods.orders", n, "SUCCESS", ("csv", rows, "iceberg", rows), owner="a:1:1")
    html = ledger.report().as_html()
    assert "Rows per window" in html
    assert html.count("<svg") == 1
    assert "9,000 read, 9,000 written" in html
    assert "Longest chain of the last run" in html
    assert "<script" not in html
