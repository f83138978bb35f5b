"""Conditions and delays are shown as nodes. Source: DolphinScheduler, 3.2 Frontend."""

from logdriven_dagster.config.derived.graph import (
    Edge,
    GraphNode,
    NodeKind,
    build_graph,
    format_mermaid,
)
from logdriven_dagster.config.derived.relations import apply_relations
from logdriven_dagster.config.models.jobs import StandardJob
from tests.builders import table

TABLES = {"a": table("a"), "b": table("b", depends_on=["a"]), "c": table("c")}


def job(*relations, tables=("a", "b", "c")):
    values = {"job": "j", "tables": tables, "relations": relations}
    return StandardJob.model_validate(values)


def graph(*relations, selected=("a", "b", "c")):
    return build_graph(apply_relations(TABLES, job(*relations)), selected)


def test_a_condition_and_a_delay_are_stored_in_the_relation_and_shown_as_nodes_d16():
    shown = graph({"from": "b", "to": "c", "condition": "failure", "delay": "30 min"})
    assert shown.nodes[3:] == (
        GraphNode("n0", NodeKind.CONDITION, "on failure"),
        GraphNode("n1", NodeKind.DELAY, "after 30 min"),
    )
    assert [(edge.start, edge.end) for edge in shown.edges] == [
        ("t0", "t1"),
        ("t1", "n0"),
        ("n0", "n1"),
        ("n1", "t2"),
    ]


def test_success_without_a_delay_is_an_edge():
    assert graph({"from": "a", "to": "c"}).edges == (
        Edge("t0", "t1", waits=True),
        Edge("t0", "t2", waits=True),
    )


def test_what_is_awaited_from_outside_is_shown_as_such():
    outside = table("d", depends_on=["a", {"table": "raw.x", "managed": False}])
    shown = build_graph({**TABLES, "d": outside}, ["d"])
    assert {node.label: node.kind for node in shown.nodes} == {
        "d": NodeKind.TABLE,
        "a": NodeKind.UPSTREAM,
        "raw.x": NodeKind.EXTERNAL,
    }
    assert [edge.waits for edge in shown.edges] == [True, False]


def test_the_text_is_mermaid():
    relation = {"from": "a", "to": "c", "condition": "always", "delay": "2 hours"}
    assert format_mermaid(graph(relation, selected=("a", "c"))).splitlines() == [
        "flowchart LR",
        '  t0["a"]',
        '  t1["c"]',
        '  n0{"always"}',
        '  n1(["after 2 hours"])',
        "  t0 --> n0",
        "  n0 --> n1",
        "  n1 --> t1",
    ]
