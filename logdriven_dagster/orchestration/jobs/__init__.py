"""Jobs of Dagster: the catch-up, and one for each configured job."""
