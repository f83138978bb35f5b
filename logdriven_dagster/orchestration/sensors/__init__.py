"""Sensors: one requests catch-ups, one shows what ran outside of Dagster."""
