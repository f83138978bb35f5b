"""Job runs: standard jobs, and the steps of maintenance jobs."""
