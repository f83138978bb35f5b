"""The models of the YAML files, with the types of their fields."""
