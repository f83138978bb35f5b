"""Many windows: the queue of a catch-up, its slots, and refreshes by name."""
