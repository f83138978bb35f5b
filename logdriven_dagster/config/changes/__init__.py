"""Effects of changed definitions: the class of each field, equal effects, changed queries."""
