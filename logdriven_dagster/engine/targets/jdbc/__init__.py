"""Targets of type jdbc: a staging table of each window, and a transaction that moves its rows."""
