"""New project folders, and the JSON schemas by which editors and `dg` check their files."""
