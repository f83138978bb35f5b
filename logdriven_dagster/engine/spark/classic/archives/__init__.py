"""Archives of Spark's classes, with which a JVM starts sooner: made once, in nobody's way."""
