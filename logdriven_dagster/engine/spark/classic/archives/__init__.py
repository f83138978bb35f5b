"""Archives of Spark's classes, with which a JVM starts sooner: made by a command."""
