"""The registry of definitions: every version of tables and jobs, and the users of each object."""
