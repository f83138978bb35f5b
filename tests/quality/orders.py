"""A table of orders, whose rows and rules each test gives."""

from typing import Any

from logdriven_dagster.engine.targets.rejected import build_rejected_target
from logdriven_dagster.engine.targets.store import StoreContext
from logdriven_dagster.engine.targets.stores import store
from logdriven_dagster.model.quality import QualityReport, RuleResult
from tests.builders import day
from tests.engine.laboratory import Lab, Ran

DAY = day(1)


class Orders(Lab):
    """`ods.orders` with the columns id, amount, country, which are what a test says."""

    ran: Ran

    def given(self, *rows: tuple[Any, ...], columns: str = "id, amount, country") -> "Orders":
        """The rows of the source."""
        names = [name.strip() for name in columns.split(",")]
        texts = [",".join("" if v is None else str(v) for v in row) for row in rows]
        self.file("orders.csv", "\n".join([",".join(names), *texts]) + "\n")
        self.columns = names
        return self

    def declare(
        self, quality: dict[str, Any], target: dict[str, Any] | None = None, **fields: Any
    ) -> "Orders":
        """Write the table's file."""
        types = {"id": "BIGINT", "amount": "INT", "updated": "TIMESTAMP", "version": "INT"}
        ddl = ", ".join(f"{name} {types.get(name, 'STRING')}" for name in self.columns)
        source = {"type": "csv", "path": "orders.csv", "header": True, "columns": ddl}
        step = {"source": source, "target": target or {"type": "iceberg"}, "quality": quality}
        self.table("ods.orders", step | fields.pop("step", {}), **fields)
        return self

    def check(self, *arguments: Any, **fields: Any) -> "Orders":
        """Declare the table and run its first day."""
        self.ran = self.declare(*arguments, **fields).run("ods.orders", DAY)
        return self

    @property
    def report(self) -> QualityReport:
        report = self.ran.staged[-1].quality
        assert report is not None
        return report

    def result(self, rule: str) -> RuleResult:
        return next(result for result in self.report.results if result.rule == rule)

    def broken(self, rule: str) -> list[Any]:
        """The ids of the rows that break a rule."""
        return [next(iter(row.values())) for row in self.result(rule).ids]

    @property
    def ids(self) -> list[Any]:
        """The ids of the published rows."""
        return [row[0] for row in self.rows("ods.orders")]

    def rejected(self) -> list[tuple[Any, ...]]:
        """The published rows with errors."""
        project = self.project
        apart = build_rejected_target("ods.orders", project.table("ods.orders").steps[-1])
        assert apart is not None
        context = StoreContext(project, self.spark, lambda: self.engine._catalog)
        frame = store(context, *apart).read(None).drop("_window_start")
        return sorted((tuple(row) for row in frame.collect()), key=repr)
