"""Importers: from database schemas, manifests of dbt, Kettle, and workflows of other systems.

Each importer only reads: it converts its input into drafts of files, and lists everything that it
cannot translate. `writing` validates the drafts against the project and writes them.
"""
