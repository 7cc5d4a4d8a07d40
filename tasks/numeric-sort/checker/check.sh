#!/bin/sh
# A checker may also give a score between 0 and 1: here the share of lines that are in their place.
expected=$(dirname "$0")/expected.txt
if [ ! -f sorted.txt ]; then
    echo "sorted.txt is not there"
    exit 1
fi
awk 'NR == FNR { want[FNR] = $0; n = FNR; next } FNR in want && want[FNR] == $0 { ok++ } END { printf "%.3f\n", ok / n }' \
    "$expected" sorted.txt > "$ASSAY_SCORE"
if cmp -s "$expected" sorted.txt; then
    exit 0
fi
echo "expected, and found:"
diff -y -W 40 "$expected" sorted.txt
exit 1
