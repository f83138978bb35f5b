"""`logdriven graph`."""

RELATION = """
job: nightly
tables: [{tables}]
relations:
  - {{from: {first}, to: {last}, condition: always, delay: 15 min}}
"""


def with_job(shop, logdriven):
    """The tables of the project, and a job with one relation."""
    names = [row["label"] for row in logdriven("graph", "--json").json["nodes"]]
    (shop / "jobs").mkdir(exist_ok=True)
    text = RELATION.format(tables=", ".join(names), first=names[0], last=names[-1])
    (shop / "jobs" / "nightly.yaml").write_text(text)
    return names


def test_a_job_is_shown_with_its_relations_and_the_project_without_d16(shop, logdriven):
    with_job(shop, logdriven)
    shown = logdriven("graph", "nightly")
    assert shown.code == 0
    assert shown.out.startswith("flowchart LR\n")
    assert '{"always"}' in shown.out
    assert '(["after 15 min"])' in shown.out
    assert "always" not in logdriven("graph").out


def test_json_gives_nodes_and_edges(shop, logdriven):
    with_job(shop, logdriven)
    found = logdriven("graph", "nightly", "--json").json
    ids = {node["id"] for node in found["nodes"]}
    assert {"condition", "delay", "table"} <= {node["kind"] for node in found["nodes"]}
    assert all({edge["from"], edge["to"]} <= ids for edge in found["edges"])


def test_an_unknown_job_is_an_error(shop, logdriven):
    failed = logdriven("graph", "nothing")
    assert failed.code == 2
    assert "unknown job 'nothing'" in failed.err
