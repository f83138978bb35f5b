"""Comparison of rows: two states of a table, two tables, or a table and a query."""
