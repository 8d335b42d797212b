#!/bin/sh
# A pipeline as users write them: every stage is a process of its own. Prints the number of lines and a checksum.
set -e
lines=${1:-200000}
awk -v n="$lines" 'BEGIN { for (i = 0; i < n; i++) print (i * 7919) % 100003, i }' | sort -n | tee /dev/null | cksum
(awk 'BEGIN { for (i = 0; i < 1500000; i++) s += i % 7; print s }') &
wait
echo "pipeline done"
