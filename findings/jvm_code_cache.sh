#!/usr/bin/env bash
# A JVM that may use its first compiler alone (-XX:TieredStopAtLevel=1), as one that ends soon
# starts fastest, reserves 48 MB for compiled code; with both compilers it would have 240 MB. The
# generated code of some hundred different queries of PySpark 4.3.0 fills them. The JVM then throws
# code away and compiles it again, and may stop compiling: every later query takes longer.
# Seen: after 400 different queries "CodeCache is full. Compiler has been disabled", 48 MB used at
# the most; with -XX:ReservedCodeCacheSize=240m more than 50 MB used, no warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
java -version
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
cat > "$folder/queries.py" <<'PYTHON'
import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[1]).getOrCreate()
for n in range(400):
    sums = ", ".join(f"sum(id * {n + 1} + {k}) s{k}, max(id % {k + 2}) m{k}" for k in range(6))
    spark.sql(f"SELECT id % {n % 7 + 2} g, {sums} FROM range({1000 + n}) GROUP BY 1").collect()
pools = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
print("peak", sum(p.getPeakUsage().getUsed() for p in pools if "Code" in p.getName()) >> 20)
spark.stop()
PYTHON
first="-XX:TieredStopAtLevel=1"
"$folder/venv/bin/python" "$folder/queries.py" "$first" > "$folder/small" 2>&1
"$folder/venv/bin/python" "$folder/queries.py" "$first -XX:ReservedCodeCacheSize=240m" > "$folder/large" 2>&1
grep -hE "CodeCache is full|peak" "$folder/small" "$folder/large"
grep -q "CodeCache is full" "$folder/small"
! grep -q "CodeCache is full" "$folder/large"
[ "$(awk '/^peak/ {print $2}' "$folder/large")" -gt 48 ]
