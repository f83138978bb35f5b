"""Jobs and tables from workflows that DolphinScheduler has exported."""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from logdriven_dagster.config import load_project
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.planning.dependencies import find_awaited_range
from logdriven_dagster.plugins.importers.dolphinscheduler.crontabs import read_crontab
from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from tests.builders import at
from tests.plugins.importers.conftest import Folder

FIRST = 9752684723000
DAILY = {"crontab": "0 30 2 * * ? *", "timezoneId": "UTC", "releaseState": "ONLINE"}


def task(name: str, kind: str = "SHELL", **values: Any) -> dict[str, Any]:
    """A task as an export has it; its parameters are given as `taskParams`."""
    parameters = values.pop("taskParams", {"rawScript": "echo done"})
    return {
        "code": code(name),
        "name": name,
        "taskType": kind,
        "taskParams": {"localParams": [], "resourceList": [], **parameters},
        "flag": "YES",
        "taskPriority": "MEDIUM",
        "workerGroup": "default",
        "environmentCode": -1,
        "failRetryTimes": 0,
        "failRetryInterval": 1,
        "timeoutFlag": "CLOSE",
        "timeout": 0,
        "delayTime": 0,
        **values,
    }


def sql(name: str, text: str, **parameters: Any) -> dict[str, Any]:
    given = {"type": "MYSQL", "datasource": 1, "sql": text, "sqlType": "1", **parameters}
    return task(name, "SQL", taskParams=given)


def conditions(name: str, relation: str, items: dict[str, str], **branches: list[str]) -> Any:
    listed = [{"depTaskCode": code(of), "status": status} for of, status in items.items()]
    group = {"relation": relation, "dependItemList": listed}
    return task(
        name,
        "CONDITIONS",
        taskParams={
            "dependence": {"relation": "AND", "dependTaskList": [group]},
            "conditionResult": {
                "successNode": [code(each) for each in branches["met"]],
                "failedNode": [code(each) for each in branches["unmet"]],
            },
        },
    )


def code(name: str) -> int:
    """A number of its own for each short name."""
    return FIRST + int.from_bytes(name.encode(), "big")


def workflow(
    *tasks: dict[str, Any],
    hops: str = "",
    schedule: Any = DAILY,
    name: str = "daily",
    **values: Any,
) -> dict[str, Any]:
    """A workflow as an export has it; `hops` is such as `a>b b>c`."""
    pairs = [hop.split(">") for hop in hops.split()]
    numbers = [(code(start), code(end)) for start, end in pairs]
    roots = {each["code"] for each in tasks} - {end for _, end in numbers}
    numbers += [(0, root) for root in roots]
    return {
        "processDefinition": {
            "code": code(name) + 1,
            "name": name,
            "releaseState": "ONLINE",
            "globalParams": "[]",
            "executionType": "PARALLEL",
            "timeout": 0,
            **values,
        },
        "processTaskRelationList": [
            {"preTaskCode": start, "postTaskCode": end, "conditionType": "NONE"}
            for start, end in numbers
        ],
        "taskDefinitionList": list(tasks),
        "schedule": schedule,
    }


@pytest.fixture
def brought(folder: Folder, command: Callable[..., Any]) -> Callable[..., Any]:
    """Import workflows that are written as one export."""
    numbers = count()

    def run(*workflows: Any, code: int = 0) -> Any:
        file = folder.root / "exports" / f"e{next(numbers)}.json"
        folder.write(str(file.relative_to(folder.root)), json.dumps(list(workflows)))
        result = command("import-dolphinscheduler", file, "--map", "1=shop", "--json")
        assert result.code == code, result.out + result.err
        if code < 2:
            load_project(folder.root)
        return result.json if code < 2 else result.err

    return run


def listed(told: Any) -> dict[str, str]:
    return {each["item"]: each["reason"] for each in told["untranslated"]}


def table(folder: Folder, name: str) -> dict[str, Any]:
    return folder.values(f"tables/ds/daily/{name}.yaml")


def depends(folder: Folder, name: str) -> list[dict[str, str]]:
    found = table(folder, name).get("depends_on", [])
    assert all(each.pop("read") == "none" for each in found)
    return [{**each, "table": each["table"].removeprefix("ds.daily.")} for each in found]


@pytest.mark.parametrize(
    ("crontab", "period", "delay", "cron"),
    [
        ("0 30 2 * * ? *", "1 day", 150, "30 2 * * *"),
        ("0 0 0 1/1 * ? *", "1 day", 0, "0 0 * * *"),
        ("0 15 * * * ?", "1 hour", 15, "15 * * * *"),
        ("0 5 0/2 * * ? *", "2 hours", 5, "5 */2 * * *"),
        ("0 0/10 * * * ? *", "10 min", 0, "*/10 * * * *"),
        ("0 0 3 ? * 1 *", "1 week", 180, "0 3 * * 0"),
        ("0 0 3 ? * MON *", "1 week", 180, "0 3 * * 1"),
        ("0 0 3 5 * ? *", "1 month", 180, "0 3 5 * *"),
    ],
)
def test_a_quartz_crontab_is_a_period_and_a_delay(crontab: str, period: str, delay: int, cron: str):
    found = read_crontab(crontab)
    assert (found.period, found.delay, found.cron) == (period, delay, cron)


@pytest.mark.parametrize(
    "crontab",
    [
        "0 0 3 ? * 2-6 *",
        "0 0 8,20 * * ? *",
        "30 0 3 * * ? *",
        "0 0 3 L * ? *",
        "0 0 3 31 * ? *",
        "0 0 3 ? * 6L *",
        "0 0 3 * 1 ? *",
        "0 0 3 * * ? 2024",
        "0 0/7 * * * ? *",
        "0 0/10 8-18 * * ? *",
        "0 0 3",
    ],
)
def test_a_crontab_without_one_period_is_refused(crontab: str):
    with pytest.raises(UntranslatableError):
        read_crontab(crontab)


def test_weeks_and_months_begin_on_the_day_of_the_schedule(folder: Folder, brought: Any):
    brought(workflow(task("a"), schedule={**DAILY, "crontab": "0 0 3 ? * 1 *"}))
    assert table(folder, "a")["default_start"] == "2022-01-09"  # a Sunday
    brought_again = workflow(
        task("a"), schedule={**DAILY, "crontab": "0 0 3 12 * ? *"}, name="other"
    )
    brought(brought_again)
    assert folder.values("tables/ds/other/a.yaml")["default_start"] == "2021-12-12"


def test_a_task_is_a_table_with_its_settings(folder: Folder, brought: Any):
    given = task(
        "a",
        taskPriority="HIGHEST",
        workerGroup="large",
        failRetryTimes="2",
        failRetryInterval="5",
        timeoutFlag="OPEN",
        timeout=30,
        timeoutNotifyStrategy="WARNFAILED",
        delayTime=10,
    )
    told = brought(workflow(given, schedule={**DAILY, "endTime": "2023-01-01 12:00:00"}))
    assert told["untranslated"] == []
    values = table(folder, "a")
    assert values | {"steps": []} == {
        "table": "ds.daily.a",
        "description": "DolphinScheduler: daily / a",
        "tags": {"dolphinscheduler_code": str(code("a"))},
        "priority": "2",
        "worker_group": "large",
        "retries": "2",
        "retry_interval": "5 min",
        "timeout": "30 min",
        "timeout_strategy": "both",
        "period": "1 day",
        "default_start": "2022-01-09",
        "end": "2023-01-01",
        "delay": "160 min",
        "ordered": "false",
        "batch_size": "1",
        "steps": [],
    }
    assert folder.values("jobs/daily.yaml")["schedule"] == "30 2 * * *"


def test_a_second_import_on_another_day_changes_nothing(folder: Folder, command: Any):
    folder.write("e.json", json.dumps([workflow(task("a"))]))
    for day in ("2022-01-10", "2022-01-20"):
        told = command("import-dolphinscheduler", folder.root / "e.json", "--now", day)
        assert told.code == 0, told.err
    assert "unchanged  3 files" in told.out


def test_tasks_wait_for_those_before_them_with_their_delay(folder: Folder, brought: Any):
    brought(workflow(task("a"), task("b"), task("c", delayTime=30), hops="a>c b>c"))
    assert depends(folder, "c") == [
        {"table": "a", "delay": "30 min"},
        {"table": "b", "delay": "30 min"},
    ]


def test_a_forbidden_task_is_passed_over(folder: Folder, brought: Any):
    brought(workflow(task("a"), task("b", flag="NO"), task("c"), hops="a>b b>c"))
    assert depends(folder, "c") == [{"table": "a"}]
    assert table(folder, "b")["enabled"] == "false"


def test_the_branches_of_one_condition(folder: Folder, brought: Any):
    node = conditions("n", "AND", {"a": "SUCCESS"}, met=["b"], unmet=["c"])
    hops = "a>n n>b n>c c>d"
    told = brought(workflow(task("a"), node, task("b"), task("c"), task("d"), hops=hops))
    assert told["untranslated"] == []
    assert depends(folder, "b") == [{"table": "a"}]
    assert depends(folder, "c") == [{"table": "a", "condition": "failure"}]
    # A task after a skipped one is skipped as well.
    assert depends(folder, "d") == [{"table": "c"}, {"table": "a", "condition": "failure"}]


def test_and_holds_in_the_branch_that_is_met(folder: Folder, brought: Any):
    node = conditions("n", "AND", {"a": "SUCCESS", "b": "FAILURE"}, met=["c"], unmet=["d"])
    given = (task("a"), task("b"), task("x"), node, task("c"), task("d"))
    told = brought(workflow(*given, hops="a>n b>n x>n n>c n>d"), code=1)
    assert depends(folder, "c") == [
        {"table": "a"},
        {"table": "b", "condition": "failure"},
        {"table": "x", "condition": "always"},
    ]
    assert "joined by AND" in listed(told)["d (SHELL)"]


def test_or_holds_in_the_branch_that_is_not_met(folder: Folder, brought: Any):
    node = conditions("n", "OR", {"a": "SUCCESS", "b": "SUCCESS"}, met=["c"], unmet=["d"])
    given = (task("a"), task("b"), node, task("c"), task("d"))
    told = brought(workflow(*given, hops="a>n b>n n>c n>d"), code=1)
    assert depends(folder, "d") == [
        {"table": "a", "condition": "failure"},
        {"table": "b", "condition": "failure"},
    ]
    assert "joined by OR" in listed(told)["c (SHELL)"]
    assert table(folder, "c")["release_state"] == "offline"


def test_a_task_that_joins_branches_is_refused(folder: Folder, brought: Any):
    node = conditions("n", "AND", {"a": "SUCCESS"}, met=["b"], unmet=["c"])
    hops = "a>n n>b n>c b>d c>d"
    told = brought(workflow(task("a"), node, task("b"), task("c"), task("d"), hops=hops), code=1)
    assert "joins the branches" in listed(told)["d (SHELL)"]


def dependent(of: Any, upstream: int, date: str) -> dict[str, Any]:
    item = {"definitionCode": str(of["processDefinition"]["code"]), "depTaskCode": upstream}
    item |= {"cycle": "day", "dateValue": date}
    groups = [{"relation": "AND", "dependItemList": [item]}]
    return task(
        "w", "DEPENDENT", taskParams={"dependence": {"relation": "OR", "dependTaskList": groups}}
    )


def test_a_dependent_task_is_depends_on_of_the_same_run(folder: Folder, brought: Any):
    first = workflow(task("a"), task("b"), hops="a>b", name="first")
    brought(first, workflow(dependent(first, 0, "today"), task("c"), hops="w>c"))
    assert table(folder, "c")["depends_on"] == [{"table": "ds.first.b", "read": "none"}]


def test_a_dependent_task_can_wait_for_one_task(folder: Folder, brought: Any):
    first = workflow(task("a"), task("b"), hops="a>b", name="first")
    brought(first, workflow(dependent(first, code("a"), "today"), task("c"), hops="w>c"))
    assert table(folder, "c")["depends_on"] == [{"table": "ds.first.a", "read": "none"}]


DAY, HOUR, HALF = "0 30 2 * * ? *", "0 15 * * * ?", "0 0/30 * * * ? *"
MONDAY, THURSDAY = "0 0 3 ? * 2 *", "0 0 3 ? * 5 *"
MONTHLY, TENTH = "0 0 3 1 * ? *", "0 0 3 10 * ? *"


def wait_for(date: str, theirs: str, own: str) -> tuple[Any, Any]:
    """Return a workflow, and another one whose task waits for it."""
    first = workflow(task("a"), schedule={**DAILY, "crontab": theirs}, name="first")
    given = (dependent(first, 0, date), task("c"))
    return first, workflow(*given, hops="w>c", schedule={**DAILY, "crontab": own})


@pytest.mark.parametrize(
    ("given", "window"),
    [
        (("last24Hours", HOUR, DAY), None),
        (("today", DAY, HOUR), "ended"),
        (("currentHour", HOUR, HOUR), None),
        (("currentHour", HOUR, HALF), "ended"),
        (("thisWeek", MONDAY, MONDAY), None),
        (("today", THURSDAY, THURSDAY), None),
        (("lastThursday", THURSDAY, MONDAY), "ended"),
        (("thisMonth", MONTHLY, MONTHLY), None),
        (("thisMonthBegin", MONTHLY, DAY), "ended"),
        (("thisMonthBegin", MONTHLY, TENTH), "ended"),
    ],
)
def test_the_runs_of_a_dependent_task_are_the_windows_that_are_waited_for(
    folder: Folder, brought: Any, given: tuple[str, str, str], window: str | None
):
    """Source: DolphinScheduler, DependentDateUtils. A run has the window before it."""
    brought(*wait_for(*given))
    [awaited] = table(folder, "c")["depends_on"]
    assert awaited.get("window") == window
    tables = load_project(folder.root).tables
    waiting, first = tables["ds.daily.c"], tables["ds.first.a"]
    [dependency] = waiting.table_dependencies
    begin = max(waiting.grid.index(first.grid.get_bound(2)), 0)
    for n in range(begin, begin + 50):
        window = waiting.grid.window(n)
        found = find_awaited_range(first, dependency, window)
        assert found is not None
        bounds = range(first.grid.index(found.start) + 1, first.grid.index(found.end) + 1)
        runs = [first.grid.get_bound(m) + first.delay for m in bounds]
        assert runs == list_needed_runs(given[0], window.end + waiting.delay, first)


def list_needed_runs(date: str, now: datetime, of: TableConfig) -> list[datetime]:
    """Return the runs of a regular table that the date value of a run at `now` needs."""
    day = now.replace(hour=0, minute=0)
    hour = now.replace(minute=0)
    monday = day - timedelta(days=day.weekday())
    one_day, one_hour = timedelta(days=1), timedelta(hours=1)
    spans = {
        "last24Hours": [(day - n * one_hour, one_hour) for n in range(23, -1, -1)],
        "today": [(day, one_day)],
        "currentHour": [(hour, one_hour)],
        "thisWeek": [(monday + n * one_day, one_day) for n in range(day.weekday() + 1)],
        "lastThursday": [(monday - 4 * one_day, one_day)],
        "thisMonth": [(day.replace(day=1) + n * one_day, one_day) for n in range(day.day)],
        "thisMonthBegin": [(day.replace(day=1), one_day)],
    }[date]
    needed = []
    for start, length in spans:
        last = of.grid.get_bound(of.grid.index(start + length - timedelta(seconds=1) - of.delay))
        assert start <= last + of.delay < start + length  # else it waits for ever
        needed.append(last + of.delay)
    return needed


@pytest.mark.parametrize(
    ("date", "theirs", "own"),
    [
        ("last1Days", DAY, DAY),
        ("today", HOUR, DAY),
        ("last24Hours", HALF, DAY),
        ("last1Hour", HOUR, HOUR),
        ("last7Days", DAY, MONDAY),
        ("lastWeek", DAY, MONDAY),
        ("thisWeek", THURSDAY, THURSDAY),
        ("lastMonday", MONDAY, THURSDAY),
        ("lastMonth", DAY, MONTHLY),
        ("lastMonthEnd", DAY, DAY),
        ("thisMonthBegin", TENTH, DAY),
    ],
)
def test_a_dependent_task_of_other_runs_is_listed(brought: Any, date: str, theirs: str, own: str):
    told = brought(*wait_for(date, theirs, own), code=1)
    assert "these are other runs" in listed(told)["c (SHELL)"]


@pytest.mark.parametrize(("crontab", "date"), [(DAY, "last1Days"), (HOUR, "last1Hour")])
def test_a_task_that_waits_for_its_own_previous_run_is_ordered(
    folder: Folder, brought: Any, crontab: str, date: str
):
    own = workflow(task("c"))
    given = (dependent(own, code("c"), date), task("c"), task("d"))
    brought(workflow(*given, hops="w>c c>d", schedule={**DAILY, "crontab": crontab}))
    assert "ordered" not in table(folder, "c")
    assert "depends_on" not in table(folder, "c")
    assert table(folder, "d")["ordered"] == "false"


def test_a_dependent_task_of_an_unknown_workflow_is_listed(brought: Any):
    first = workflow(task("a"), name="first")
    told = brought(workflow(dependent(first, 0, "today"), task("c"), hops="w>c"), code=1)
    assert "export it as well" in listed(told)["c (SHELL)"]


def test_statements_are_committed_one_by_one(folder: Folder, brought: Any):
    given = sql("a", "DELETE FROM t; INSERT INTO t SELECT 1", preStatements=["SET x = ';'"])
    brought(workflow(given))
    step = table(folder, "a")["steps"][0]
    assert step["commit_before_read"] == [
        {
            "connection": "shop",
            "sql": ["SET x = ';'", "DELETE FROM t", "INSERT INTO t SELECT 1"],
            "transaction": "false",
        }
    ]


def test_parameters_are_bound_as_values_of_their_type(folder: Folder, brought: Any):
    own = [
        {"prop": "day", "direct": "IN", "type": "VARCHAR", "value": "${system.biz.date}"},
        {"prop": "until", "direct": "IN", "type": "VARCHAR", "value": "$[yyyy-MM-dd]"},
        {"prop": "most", "direct": "IN", "type": "INTEGER", "value": "5"},
    ]
    everywhere = json.dumps([{"prop": "town", "direct": "IN", "type": "VARCHAR", "value": "Ede"}])
    text = (
        "DELETE FROM !{town} WHERE d >= '${day}' AND d < ${until} AND n < ${most} AND c = ${town}"
    )
    given = sql("a", text + " AND e = '$[yyyyMM-1]'", localParams=own)
    brought(workflow(given, globalParams=everywhere))
    values = table(folder, "a")
    assert values["variables"] == {"town": "Ede", "most": "5"}
    assert values["steps"][0]["commit_before_read"][0]["sql"][0] == (
        "DELETE FROM ${town} WHERE d >= '${DATA_RANGE_START:yyyyMMdd}' AND "
        "d < '${DATA_RANGE_END:yyyy-MM-dd}' AND n < ${most} AND c = '${town}' AND "
        "e = '${DATA_RANGE_START:yyyyMM}'"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DELETE FROM t WHERE a = ${b}", "has no value"),
        ("DELETE FROM t WHERE a LIKE '%${day}%'", "within quotes"),
        ("DELETE FROM t WHERE a = '$[yyyyMMddHH]'", "time of the schedule"),
        ("DELETE FROM t WHERE a = '$[yyyyMMdd-2]'", "neither the start nor the end"),
        ("DELETE FROM t WHERE a = '$[month_begin(yyyyMMdd, 0)]'", "not a time of the window"),
        ("DELETE FROM t WHERE a = ${it}", "quotes"),
    ],
)
def test_a_placeholder_without_counterpart_is_refused(brought: Any, text: str, reason: str):
    own = [
        {"prop": "day", "direct": "IN", "type": "VARCHAR", "value": "1"},
        {"prop": "it", "direct": "IN", "type": "VARCHAR", "value": "it's"},
    ]
    told = brought(workflow(sql("a", text, localParams=own)), code=1)
    assert reason in listed(told)["a (SQL)"]


def test_a_value_that_an_earlier_task_passes_is_refused(brought: Any):
    out = [{"prop": "n", "direct": "OUT", "type": "VARCHAR", "value": ""}]
    first = sql("a", "SELECT 1 AS n", sqlType="0", localParams=out)
    second = task("b", taskParams={"rawScript": "echo ${n}"})
    told = brought(workflow(first, second, task("c"), hops="a>b"), code=1)
    assert list(listed(told)) == ["b (SHELL)"]


def test_a_procedure_is_a_call(folder: Folder, brought: Any):
    own = [{"prop": "n", "direct": "IN", "type": "INTEGER", "value": "3"}]
    given = {"type": "MYSQL", "datasource": 1, "method": "{call fill(${n})}", "localParams": own}
    brought(workflow(task("a", "PROCEDURE", taskParams=given)))
    assert table(folder, "a")["steps"][0]["commit_before_read"][0]["sql"] == ["call fill(${n})"]


@pytest.mark.parametrize("kind", ["SPARK", "HTTP", "SUB_PROCESS", "SWITCH", "DATAX"])
def test_other_tasks_are_steps_that_fail(folder: Folder, brought: Any, kind: str):
    told = brought(workflow(task("a", kind)), code=1)
    assert list(listed(told)) == [f"a ({kind})"]
    assert "not translated" in table(folder, "a")["steps"][0]["sql"]


@pytest.mark.parametrize(
    ("crontab", "end", "last"),
    [
        ("0 30 2 * * ? *", "2026-05-01 12:00:00", "2026-05-01"),
        ("0 30 2 * * ? *", "2026-05-01 00:00:00", "2026-04-30"),
        ("0 0 * * * ? *", "2026-05-01 12:30:00", "2026-05-01 12:30:00"),
    ],
)
def test_the_last_window_is_that_of_the_last_scheduled_run(
    folder: Folder, brought: Any, crontab: str, end: str, last: str
):
    brought(workflow(task("a"), schedule={**DAILY, "crontab": crontab, "endTime": end}))
    assert folder.values("tables/ds/daily/a.yaml")["end"] == last


def test_tasks_without_a_worker_group_have_that_of_the_schedule(folder: Folder, brought: Any):
    schedule = {**DAILY, "workerGroup": "gpu", "processInstancePriority": "HIGH"}
    told = brought(workflow(task("a"), task("b", workerGroup="etl"), schedule=schedule))
    assert folder.values("tables/ds/daily/a.yaml")["worker_group"] == "gpu"
    assert folder.values("tables/ds/daily/b.yaml")["worker_group"] == "etl"
    assert "processInstancePriority HIGH" in str(told["notes"])


def test_weeks_that_begin_on_other_days_are_other_runs(brought: Any):
    group = {
        "relation": "AND",
        "dependItemList": [
            {
                "definitionCode": code("first") + 1,
                "depTaskCode": 0,
                "cycle": "week",
                "dateValue": "thisWeek",
            }
        ],
    }
    given = {"dependence": {"relation": "AND", "dependTaskList": [group]}}
    first = workflow(task("a"), schedule={**DAILY, "crontab": "0 0 3 ? * 4 *"}, name="first")
    second = workflow(
        task("wait", "DEPENDENT", taskParams=given),
        task("b"),
        hops="wait>b",
        schedule={**DAILY, "crontab": "0 0 3 ? * 2 *"},
    )
    assert "these are other runs" in str(brought(first, second, code=1)["untranslated"])


def test_scripts_contain_days_before_the_window(folder: Folder, brought: Any):
    brought(workflow(task("a", taskParams={"rawScript": "echo $[yyyy-MM-dd-7] $[yyyyMMdd]"})))
    script = folder.text("tables/ds/daily/a.py")
    compile(script, "daily.a.py", "exec")
    assert "from datetime import timedelta" in script
    assert "(window.end + timedelta(days=-7)).strftime('%Y-%m-%d')" in script


def test_a_schedule_of_another_zone_is_offline(folder: Folder, brought: Any):
    told = brought(workflow(task("a"), schedule={**DAILY, "timezoneId": "Asia/Shanghai"}), code=1)
    assert "set timezone in logdriven.yaml" in next(iter(listed(told).values()))
    assert folder.values("jobs/daily.yaml")["release_state"] == "offline"
    assert table(folder, "a")["release_state"] == "offline"


def test_names_of_later_versions_and_bodies_of_the_api(folder: Folder, command: Any):
    given = workflow(task("a"), globalParams=[{"prop": "x", "value": "1"}])
    given["workflowDefinition"] = given.pop("processDefinition")
    given["workflowTaskRelationList"] = given.pop("processTaskRelationList")
    for each in given["taskDefinitionList"]:
        each["taskParams"] = json.dumps(each["taskParams"])
        each["code"] = str(each["code"])
    folder.write("api.json", json.dumps({"code": 0, "data": given}))
    assert command("import-dolphinscheduler", folder.root / "api.json").code == 0
    assert folder.files() == ["jobs/daily.yaml", "tables/ds/daily/a.py", "tables/ds/daily/a.yaml"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[]]", "is not JSON"),
        ('[{"processDefinitionJson": "{}"}]', "export of version 1"),
        ('[{"processDefinition": {}}]', "is not an exported workflow"),
        (json.dumps(workflow(task("a"), hops="a>z")), "unknown tasks"),
        (json.dumps(workflow(task("a"), task("b"), hops="a>b b>a")), "cycle"),
        (json.dumps(workflow(task("a"), task("a"))), "twice"),
        ('[{"processDefinition": {}, "taskDefinitionList": [1]}]', "must be a list of objects"),
    ],
)
def test_a_file_that_is_no_export_writes_nothing(
    folder: Folder, command: Any, content: str, problem: str
):
    folder.write("e.json", content)
    result = command("import-dolphinscheduler", folder.root / "e.json")
    assert result.code == 2
    assert problem in " ".join(result.err.split())
    assert folder.files() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("dependence", 1), ("dependence", {"dependTaskList": [1]}), ("conditionResult", [2])],
)
def test_malformed_conditions_are_listed(brought: Any, name: str, value: Any):
    node = conditions("n", "AND", {"a": "SUCCESS"}, met=["b"], unmet=[])
    node["taskParams"][name] = value
    told = brought(workflow(task("a"), node, task("b"), hops="a>n n>b"), code=1)
    assert "must be" in listed(told)["b (SHELL)"]


def test_an_imported_workflow_runs(spark: Any, folder: Folder, brought: Any):
    folder.execute("CREATE TABLE t (d TEXT)")
    text = "INSERT INTO t VALUES (${day})"
    own = [{"prop": "day", "direct": "IN", "type": "VARCHAR", "value": "${system.biz.date}"}]
    node = conditions("n", "AND", {"c": "SUCCESS"}, met=["d"], unmet=["e"])
    seen = folder.root / "seen"
    shell = task(
        "b",
        taskParams={
            "rawScript": f'for i in 1 2; do\r\n  echo "$i ${{day}} ${{HOME:-}}" >> {seen}\r\ndone',
            "localParams": own,
        },
    )
    python = task(
        "e", "PYTHON", taskParams={"rawScript": f"open({str(seen)!r}, 'a').write('''failed\\n''')"}
    )
    failing = task("c", taskParams={"rawScript": "exit 3"})
    given = (sql("a", text, localParams=own), shell, failing, node, task("d"), python)
    brought(workflow(*given, hops="a>b b>c c>n n>d n>e"))
    folder.spark = spark
    folder.catch_up(now=at("2022-01-10 12:00"))
    ended = {row["job_name"].removeprefix("ds.daily."): row["status"] for row in folder.log()}
    assert ended == {"a": "SUCCESS", "b": "SUCCESS", "c": "FAILURE", "e": "SUCCESS"}
    engine = sa.create_engine(folder.url)
    with engine.connect() as conn:
        assert conn.exec_driver_sql("SELECT d FROM t").scalars().all() == ["20220109"]
    written = seen.read_text().splitlines()
    assert written[1:] == [f"2 20220109 {os.environ.get('HOME', '')}", "failed"]


BODY = "CREATE PROCEDURE p() BEGIN DELETE FROM a; DELETE FROM b; END"


@pytest.mark.parametrize(
    ("text", "parameters", "reason"),
    [
        ("INSERT INTO a SELECT 1", {"sqlType": "0"}, "its statement is not a query"),
        ("WITH a AS (SELECT 1) DELETE FROM b", {"sqlType": "0"}, "its statement is not a query"),
        (f"DROP PROCEDURE p; {BODY}", {}, "a block of statements (BEGIN … END)"),
        (f"DELIMITER $$\n{BODY} $$", {}, "a block of statements (BEGIN … END)"),
        ("DECLARE n INT; BEGIN n := 1; END;", {}, "a block of statements (BEGIN … END)"),
        ("SELECT 1", {"datasource": None}, "it has no number of a data source (MYSQL)"),
    ],
)
def test_statements_that_would_run_in_another_way_fail(
    folder: Folder, brought: Any, text: str, parameters: dict[str, Any], reason: str
):
    told = brought(workflow(sql("a", text, **parameters)), code=1)
    assert reason in listed(told)["a (SQL)"]
    assert "not translated" in table(folder, "a")["steps"][0]["sql"]


def test_transactions_and_queries_in_parentheses_are_no_blocks(folder: Folder, brought: Any):
    text = "BEGIN; DELETE FROM a; COMMIT"
    brought(workflow(sql("a", text), sql("b", "(SELECT 1)", sqlType="0"), hops="a>b"))
    (step,) = table(folder, "a")["steps"]
    assert step["commit_before_read"][0]["sql"] == ["BEGIN", "DELETE FROM a", "COMMIT"]


def test_secrets_of_statements_and_scripts_are_not_written(folder: Folder, brought: Any):
    told = brought(
        workflow(
            sql("a", "CREATE VIEW v USING jdbc OPTIONS (password 'tr0ub4dor')", datasource=9),
            task("b", taskParams={"rawScript": "mysql -u shop -ptr0ub4dor sales"}),
        ),
        code=1,
    )
    assert "its script has a secret in plain text" in str(told["untranslated"])
    assert "not translated" in table(folder, "b")["steps"][0]["sql"]
    files = [folder.text(name) for name in folder.files()]
    assert "password '***'" in "".join(files)
    assert "tr0ub4dor" not in "".join(files) + str(told)


def test_a_schedule_that_has_ended_is_offline_without_an_end(folder: Folder, brought: Any):
    told = brought(
        workflow(task("a"), schedule={**DAILY, "endTime": "2021-06-01 00:00:00"}), code=1
    )
    assert "no run is left" in listed(told)["endTime 2021-06-01 00:00:00"]
    assert table(folder, "a")["release_state"] == "offline"
    assert "end" not in table(folder, "a")
    assert folder.values("jobs/daily.yaml")["release_state"] == "offline"
