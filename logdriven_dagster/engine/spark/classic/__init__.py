"""Classic Spark sessions, whose JVM belongs to this process, and the Java runtime they need."""
