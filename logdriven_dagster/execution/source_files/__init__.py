"""Files of sources: those that windows wait for, and those that changed after windows ran."""
