"""Targets of type jdbc: a staging table per window, and one transaction that moves its rows."""
