"""Writing attempts: claim, lease, steps, end, and what the finished windows cover."""
