"""The plan and row counts of a finished query, from the status store of a classic session.

The driver keeps this store whether the user interface is enabled or not.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.classic.java_values import python_value
from logdriven_dagster.engine.spark.mode import is_one_jvm
from logdriven_dagster.engine.spark.query_plans import (
    ROWS,
    PlanNode,
    QueryPlan,
    StageRun,
    number,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logdriven_dagster.engine.spark.mode import Mark

_BUS_MILLISECONDS = 20_000


def query_plan(spark: "SparkSession", mark: "Mark") -> QueryPlan | None:
    """Return the plan of the latest query that ran under this mark; None if there is none."""
    # Metrics reach the store through an asynchronous queue.
    session = internals.java_session(spark)
    session.sparkContext().listenerBus().waitUntilEmpty(_BUS_MILLISECONDS)
    store = session.sharedState().statusStore()
    executions = _executions(store, mark)
    if not executions:
        return None
    values = [python_value(store.executionMetrics(each)) for each in executions]
    graph = python_value(store.planGraph(executions[-1]))
    nodes = [
        PlanNode(node["id"], node["name"].strip(), node["desc"], _rows(node["metrics"], values))
        for node in graph["allNodes"]
    ]
    plan = QueryPlan.build(nodes, [(edge["fromId"], edge["toId"]) for edge in graph["edges"]])
    if plan.is_sampled or not is_one_jvm(str(session.sparkContext().master())):
        plan = replace(plan, runs=list(_runs(session, executions)))
    return plan


def _runs(session: Any, executions: list[int]) -> Iterator[StageRun]:
    """Yield the stage runs of these executions."""
    plans, stages = session.sharedState().statusStore(), session.sparkContext().statusStore()
    defaults = [getattr(stages, f"stageData$default${place}")() for place in range(2, 6)]
    for execution in executions:
        for stage in python_value(plans.execution(execution).get().stages()):
            yield from map(StageRun.from_json, python_value(stages.stageData(stage, *defaults)))


def _executions(store: Any, mark: "Mark") -> list[int]:
    """Return the execution ids of the latest query under a mark, in ascending order.

    A JDBC write consists of several executions below one root, which began first: each counts only
    the stages that it ran. The query is among the newest of those that the store keeps.
    """
    kept, found, root = store.executionsList(), list[int](), -1
    for position in reversed(range(kept.size())):
        each = kept.apply(position)
        if each.executionId() < root:
            break
        if each.description() == mark.description:
            found.append(int(each.executionId()))
            root = int(each.rootExecutionId())
    return found[::-1]


def _rows(metrics: list[dict[str, Any]], values: list[dict[str, str]]) -> int | None:
    for metric in metrics:
        if metric["name"] == ROWS:
            key = str(metric["accumulatorId"])
            # A node that never ran has no value, and a scan of no partitions puts out no rows.
            return max((number(each[key]) for each in values if key in each), default=0)
    return None
