"""Sensors: one requests catch-ups, one shows windows that ran outside of Dagster."""
