"""SQL over an export: DuckDB with one view for each table, which can read that export and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from graph_agent.analytics.tables import TABLES, AnalyticsTable
from graph_agent.errors import ServiceError, ServiceErrorCode

_BATCH = 1_000


class QueryResult(NamedTuple):
    """The rows of a query. `rows` can be read while the query's connection is open."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def run_sql(directory: Path, sql: str) -> Iterator[QueryResult]:
    """Run one SELECT over the tables in `directory`, which `ParquetExport` has written, and yield its result.

    Raises `ServiceError` VALIDATION_ERROR for any other statement, for more than one, and with DuckDB's message for one that
    fails. Reading the rows raises it too, also for a value that Python does not have, such as the year 20000. The statement can
    open no other file and no address.
    """
    with duckdb.connect(":memory:", config={"custom_user_agent": "graph-agent"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET autoinstall_known_extensions = false")
        # Without a directory for intermediate results the query writes nothing.
        connection.execute("SET temp_directory = ''")
        for table in TABLES:
            _create_view(connection, directory, table)
        connection.execute(f"SET allowed_directories = [{_quote(f'{directory.resolve()}/')}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            _check_reads(connection, sql)
            result = connection.sql(sql)
            yield QueryResult(result.columns, _rows(result))
        except duckdb.Error as exc:
            raise _failed(exc) from exc


def _create_view(connection: duckdb.DuckDBPyConnection, directory: Path, table: AnalyticsTable) -> None:
    files = f"{directory.resolve()}/{table.name}/*/*.parquet"
    if any((directory / table.name).glob("*/*.parquet")):
        source = f"SELECT * FROM read_parquet({_quote(files)}, hive_partitioning = true, union_by_name = true)"
    else:
        connection.register(f"no_{table.name}", table.schema.empty_table())
        source = f"SELECT *, CAST(NULL AS DATE) AS day FROM no_{table.name}"
    connection.execute(f"CREATE VIEW {table.name} AS {source}")


def _check_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "the query must be one SELECT")


def _rows(result: duckdb.DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in result.to_arrow_reader(_BATCH):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (ArithmeticError, ValueError) as exc:
        text = f"a value of the result does not exist in Python ({exc}): select it with CAST(... AS VARCHAR)"
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, text) from exc
    except OSError as exc:
        # Arrow's error for a statement that fails after its first rows.
        raise _failed(exc) from exc


def _failed(exc: Exception) -> ServiceError:
    # The further lines of DuckDB's message repeat the query.
    return ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"DuckDB: {str(exc).splitlines()[0]}")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
