"""Tables as Dagster shows and runs them: assets, partitions, jobs, sensors. The only Dagster."""
