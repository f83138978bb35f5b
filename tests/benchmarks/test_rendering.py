"""`docs/evidence/benchmarks.md` is made of the results alone."""

from pathlib import Path

from benchmarks.process import Measured
from benchmarks.rendering import markdown, picture
from benchmarks.results import Results, Scenario, Times

MACHINE = {
    "when": "2026-01-01 00:00 UTC",
    "cores": 2,
    "memory_gb": 24,
    "load_before": "0.1 0.1 0.1",
    "python": "3.11",
    "java": "17",
    "spark": "4.3.0",
    "dagster": "1.13",
    "logdriven_dagster": "abc",
}


def times(label: str, *seconds: float) -> Times:
    found = Times(label)
    for each in seconds:
        found.add(Measured(each, 2 * each, 0.0, 500), 1000)
    return found


def results(**contestants: Times) -> Results:
    scenario = Scenario(
        "Catch-up", MACHINE, {k.replace("_", "-"): v for k, v in contestants.items()}
    )
    return Results("full", {"spark.master": "local[2]"}, {"pyspark": "4.3.0"}, {"A": scenario})


def test_the_fastest_stands_first_with_its_ratio_to_the_plain_pass():
    text = markdown(results(plain_pass=times("plain", 4, 5), dagster_batched=times("ours", 2, 2.5)))
    ours, plain = text.index("| ours | 2.2 (2.0–2.5) | 0.50"), text.index("| plain | 4.5")
    assert ours < plain


def test_memory_of_a_server_and_time_of_the_first_window_are_reported():
    ours = Times("ours")
    ours.add(Measured(20.0, 5.0, 30.0, 500), 1000, [9.0, 1.0, 1.5, 1.2])
    text = markdown(results(logdriven=ours))
    assert "| ours | 20.0 | 1.00 | 5.0 + 30.0 | 500 | 1,000 |" in text
    assert "- ours: 9.0 s for the first window, 1.20 s for each other (median)" in text


def test_the_page_begins_with_what_everybody_gets_without_settings():
    found = results(plain_pass=times("plain", 10), logdriven_defaults=times("ours", 8))
    assert (picture(found), "Defaults of all contestants" in markdown(found)) == (None, False)
    found.scenarios = {"U": found.scenarios["A"]}
    text = markdown(found)
    assert text.index("## Defaults of all contestants") < text.index("## Method")
    assert "| Catch-up | plain | 10.0 | 20.0 | 0.80 | 0.80 |" in text
    drawn = picture(found)
    assert drawn is not None
    assert drawn.index(">ours<") < drawn.index(">plain<") < drawn.index(">10.0 s<")


def test_a_target_states_whether_it_is_met():
    text = markdown(results(plain_pass=times("plain", 10), dagster_batched=times("ours", 11)))
    assert "| batched ≤ 1.05 × the plain single pass (A) | 1.10 | 1.05 | **no** |" in text


def test_a_contestant_with_wrong_rows_has_no_time():
    wrong = Times("dbt", failed="1 days differ, the first is 2024-01-02: 9 rows instead of 10")
    text = markdown(results(plain_pass=times("plain", 10), dbt=wrong))
    assert "- dbt: **failed**: 1 days differ" in text
    assert "| dbt |" not in text


def test_results_are_the_same_after_they_were_kept(tmp_path: Path):
    found, path = results(plain_pass=times("plain", 10, 11)), tmp_path / "benchmarks.json"
    found.save(path)
    assert Results.load(path, "full") == found
    assert Results.load(path, "quick") == Results("quick")


def test_a_probe_shows_its_table_and_its_limit():
    found = Results("quick")
    shown = {"head": ["what", "ms"], "rows": [["sensor tick", "90.0"]]}
    found.probes["K"] = {
        "title": "Ticks",
        "machine": "now",
        "table": shown,
        "tick_ms": [80, 90, 95],
    }
    text = markdown(found)
    assert "| sensor tick | 90.0 |" in text
    assert (
        "| a tick over 10 M attempts ≤ 1 s (K) | 90.00 (80.00–95.00) ms | 1000.00 ms | yes |"
        in text
    )


def test_results_on_sail_are_marked_with_the_share_of_queries_that_it_supports():
    found = results(logdriven_sail=times("on Sail", 1), plain_loop=times("plain", 10))
    assert markdown(found).count("- Sail: supported SQL only") == 2
    assert "supported SQL only" not in markdown(results(plain_loop=times("plain", 10)))
