"""Source types: a reader for each, and how far each of them goes."""
