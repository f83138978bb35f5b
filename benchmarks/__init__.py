"""Side by side with plain Spark, SQLMesh and dbt: `make bench`; `python -m benchmarks --help`."""
