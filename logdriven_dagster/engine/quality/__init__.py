"""Rules of data quality and checks: which rows break them."""
