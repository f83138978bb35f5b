"""The tables and views of the run log, and the migration of older logs."""
