"""Targets of type iceberg: Spark writes Parquet files, PyIceberg commits them."""
