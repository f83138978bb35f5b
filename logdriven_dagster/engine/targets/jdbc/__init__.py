"""Targets of type jdbc: a staging table, and one transaction that moves its rows."""
