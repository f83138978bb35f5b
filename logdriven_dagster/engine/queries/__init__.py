"""SQL of steps: names, values, columns, and the assignment of rows to windows."""
