"""Target types: a store for each, and what targets hold that nobody needs any more."""
