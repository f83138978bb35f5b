"""Tables as Dagster's assets: specifications, partitions, metadata, checks."""
