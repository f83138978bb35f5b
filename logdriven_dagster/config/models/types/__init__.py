"""Source and target types of steps, one module for each."""
