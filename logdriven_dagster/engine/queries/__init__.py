"""What a step's SQL means: names, values, columns, and the window that a row belongs to."""
