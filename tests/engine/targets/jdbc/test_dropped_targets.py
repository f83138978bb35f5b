"""Targets of removed tables in databases: only tables that windows wrote are dropped."""

from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.targets.jdbc.commit_markers import markers_in
from logdriven_dagster.engine.targets.jdbc.garbage import list_table_parts
from logdriven_dagster.errors import UsageError


def test_a_target_is_dropped_with_its_markers_and_staging_tables_if_windows_wrote_it(
    tmp_path: Path, database_url: sa.URL
):
    url = database_url.render_as_string(hide_password=False)
    (tmp_path / "secret").write_text(url)
    settings = {"project": "p", "connections": {"db": {"url": f"${{file:{tmp_path}/secret}}"}}}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    project = load_project(tmp_path)
    target = JdbcTarget.model_validate({"type": "jdbc", "connection": "db", "table": "t"})
    engine = sa.create_engine(database_url, poolclass=sa.NullPool)

    def execute(*statements: str) -> None:
        with engine.begin() as conn:
            for statement in statements:
                conn.execute(sa.text(statement))

    def parts() -> list[str]:
        return [part.location for part in list_table_parts(project, "ods.t", target)]

    assert parts() == []
    execute(
        "CREATE TABLE t (n INTEGER, _window_start VARCHAR(32))",
        "CREATE TABLE t__staging_7_a1b2c3 (n INTEGER)",
        "CREATE TABLE t__staging_other (n INTEGER)",
    )
    with pytest.raises(UsageError, match="t has no commit marker; drop it with the tools"):
        parts()
    markers = markers_in(None)
    markers.create(engine)
    written = (
        "INSERT INTO logdriven_commit (target_table, data_range_start, data_range_end, table_name,"
        " job_id, staging, committed_at)"
        " VALUES ('{}', '2022', '2023', 'ods.t', 7, 's', '2022-01-01 00:00:00')"
    )
    execute(written.format("t"), written.format("u"))
    execute("INSERT INTO t VALUES (1, '2022-01-01T00:00:00Z'), (2, NULL)")
    with pytest.raises(UsageError, match="t has rows that no window wrote"):
        parts()
    execute("DELETE FROM t WHERE n = 2")
    assert parts() == ["t__staging_7_a1b2c3", "db:t"]
    execute("DROP TABLE t")  # a removal that was killed before it removed the markers
    assert parts() == ["t__staging_7_a1b2c3", "db:t"]
    for _ in range(2):
        for part in list_table_parts(project, "ods.t", target):
            part.remove()
    assert sorted(sa.inspect(engine).get_table_names()) == ["logdriven_commit", "t__staging_other"]
    with engine.connect() as conn:
        assert conn.execute(sa.select(markers.c.target_table)).scalars().all() == ["u"]
