"""Tables from Sharp ETL's workflow files."""
