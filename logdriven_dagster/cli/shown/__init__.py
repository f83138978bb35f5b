"""How results look on a terminal and as JSON."""
