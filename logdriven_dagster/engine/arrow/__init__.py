"""Published rows without Spark: read by PyArrow, queried by DuckDB."""
