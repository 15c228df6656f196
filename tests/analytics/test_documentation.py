"""`docs/analytics.md`: every column and query in it is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_agent.analytics.parquet import ParquetExport
from graph_agent.analytics.sql import run_sql
from graph_agent.analytics.tables import TABLES
from graph_agent.db import Database
from tests.audit.builders import make_record, store_records

PAGE = (Path(__file__).parents[2] / "docs" / "analytics.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_page_lists_exactly_the_columns_of_the_table(table: object) -> None:
    section = PAGE.partition(f"### {table.name}\n")[2].partition("\n#")[0]  # type: ignore[attr-defined]  # the parameter is an AnalyticsTable
    listed = re.findall(r"^\| `(\w+)` \| \w+ \| (.+) \|$", section, re.MULTILINE)
    assert listed == [(name, column.meaning) for name, column in table.columns.items()]  # type: ignore[attr-defined]  # see above


def test_the_page_has_ten_queries() -> None:
    assert len(QUERIES) == 10


@pytest.mark.parametrize("sql", QUERIES, ids=lambda sql: sql.split(",")[0].removeprefix("SELECT "))
async def test_a_query_of_the_page_runs(log: Database, tmp_path: Path, sql: str) -> None:
    failed = {"success": False, "error_code": "NOT_FOUND"}
    store_records(log, make_record(1, tokens=10, calls=({},)), make_record(2, calls=(failed,), constitution="another"))
    async for _ in ParquetExport(log, tmp_path).run():
        pass
    with run_sql(tmp_path, sql) as result:
        assert all(len(row) == len(result.columns) for row in result.rows)
