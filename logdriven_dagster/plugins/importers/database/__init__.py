"""Importer of a database's schema."""
