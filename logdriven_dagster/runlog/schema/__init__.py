"""The tables and views of the run log, and how older logs come to have them."""
