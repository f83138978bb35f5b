"""Importers: from database schemas, the manifests of dbt, the tables of Kettle, workflow files.

Each importer only reads: it converts its input into drafts of files, and lists everything that it
cannot translate. `writing` validates the drafts against the project and writes them.
"""
