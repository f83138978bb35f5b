"""Targets of type delta: Spark writes Parquet files, delta-rs commits them."""
