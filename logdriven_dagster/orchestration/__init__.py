"""The only package that imports Dagster: assets, partitions, jobs and sensors for tables."""
