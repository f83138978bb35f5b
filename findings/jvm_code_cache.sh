#!/usr/bin/env bash
# A JVM that may use its first compiler alone (-XX:TieredStopAtLevel=1), as short-lived ones do,
# reserves 48 MB for compiled code, where both compilers together have 240 MB. Spark 4.3 fills them in
# some hundred queries. From then on the JVM sweeps the cache, throws code away and compiles it again.
# Seen: 211 tests of Spark in one JVM take 115 s of processor with 48 MB (5.9 of them in the thread
# "Sweeper", 8.6 in the compiler), 85 s with 240 MB (0 and 4.3).
set -euo pipefail
size() { java "$@" -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$2 == "ReservedCodeCacheSize" {print $4}'; }
both=$(size) first=$(size -XX:TieredStopAtLevel=1)
echo "both compilers: $((both >> 20)) MB, the first alone: $((first >> 20)) MB"
[ "$first" -eq $((48 << 20)) ]
[ "$both" -eq $((240 << 20)) ]
