"""Catching up: the queue of a catch-up, its parallel slots, and refreshes by name."""
