"""Importer for dbt: models, sources, seeds and tests of a project's `target/manifest.json`."""
