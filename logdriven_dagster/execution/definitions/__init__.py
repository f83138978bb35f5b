"""A project's files and the registry: registering, changing, exporting, comparing."""
