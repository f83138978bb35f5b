"""Class data archives that shorten the start of Spark's JVM; `logdriven spark warm` makes them."""
