#!/bin/sh
# Hidden from the agent. Runs in the working directory as it was left, in a container of its own without network.
# Exit 0 is a pass, 1 a fail; anything else means that this checker is broken, so say fail explicitly.
if [ ! -f answer.txt ]; then
    echo "answer.txt is not there"
    exit 1
fi
if [ "$(head -c 100 answer.txt | tr -d '[:space:]')" = 7 ]; then
    exit 0
fi
echo "answer.txt does not say 7"
exit 1
