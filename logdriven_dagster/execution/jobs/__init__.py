"""Runs of configured jobs: standard jobs, and the steps of maintenance jobs."""
