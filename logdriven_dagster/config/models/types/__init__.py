"""What a step reads and writes: a module for each type of source and target."""
