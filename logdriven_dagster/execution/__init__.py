"""Use cases: catch up, run or refresh a window. No Dagster, and Spark only behind the engine."""
