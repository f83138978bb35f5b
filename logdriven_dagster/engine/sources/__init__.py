"""Source types: one reader per type, and the frontier of each source."""
