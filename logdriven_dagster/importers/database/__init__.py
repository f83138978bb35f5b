"""Tables from the schema of a database."""
