"""Classic sessions of Spark, whose JVM belongs to this process, and the Java that they need."""
