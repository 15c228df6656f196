"""The log as Parquet files and as DuckDB views, beside the log's database. Needs the extra `analytics`."""
