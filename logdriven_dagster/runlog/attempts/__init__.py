"""Writing attempts: claim, lease, steps, end, and the ranges that finished windows cover."""
