"""Log-driven ETL on Dagster and Spark."""

__version__ = "0.1.0"
