"""Use cases: catch up, run or refresh windows. No Dagster; Spark only through the engine."""
