"""Tables and jobs from Kettle's configuration tables and transformations."""
