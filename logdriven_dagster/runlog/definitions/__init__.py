"""The registry of definitions: every version of tables and jobs, and who uses what."""
