#!/bin/sh
awk '
NF == 7 {
    requests++
    if ($5 >= 500) errors++
    if ($6 != "-") bytes += $6
    if ($7 + 0 > most) { most = $7 + 0; slowest = $4 }
    if (!seen[$2]++) clients++
}
END {
    printf "{\"requests\": %d, \"errors\": %d, \"bytes\": %d, \"slowest\": \"%s\", \"clients\": %d}\n",
        requests, errors, bytes, slowest, clients
}' access.log > report.json
