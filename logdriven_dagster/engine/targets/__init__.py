"""Target types: one store per type, and the garbage that targets leave behind."""
