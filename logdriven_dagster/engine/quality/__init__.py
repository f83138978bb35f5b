"""Data quality rules and checks: rows that violate them."""
