"""New project folders, and JSON schemas with which editors and `dg` validate their files."""
