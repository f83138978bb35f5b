"""What the demo does with its files; killed anywhere, it goes on. test_readme.py runs it."""

from logdriven_dagster.examples import demo


def test_one_value_is_made_unreadable_and_the_good_file_kept(tmp_path):
    demo.prepare(tmp_path)
    good = demo.spare(tmp_path).read_text().splitlines()
    bad = (tmp_path / "data" / "flights.csv").read_text().splitlines()
    changed = [(a, b) for a, b in zip(good, bad, strict=True) if a != b]
    ((before, after),) = changed
    assert before.startswith("2013,1,16,")
    assert after.split(",")[demo.DELAY] == demo.BAD_VALUE


def test_a_repaired_demo_stays_repaired(tmp_path):
    demo.prepare(tmp_path)
    demo.repair(tmp_path)
    demo.prepare(tmp_path)
    assert not demo.spare(tmp_path).exists()
    assert demo.BAD_VALUE not in (tmp_path / "data" / "flights.csv").read_text()


def test_a_demo_killed_between_the_two_files_can_repair(tmp_path):
    demo.prepare(tmp_path)
    (tmp_path / "data" / "flights.csv").unlink()
    demo.prepare(tmp_path)
    demo.repair(tmp_path)
    assert demo.BAD_VALUE not in (tmp_path / "data" / "flights.csv").read_text()
