#!/bin/sh
# Runs in the working directory as the agent left it. Exit 0 is a pass and 1 a fail; anything else means that this
# checker is broken. So a missing file, at which many commands exit with 2, is said to be a fail here.
if [ ! -f hello.txt ]; then
    echo "hello.txt is not there"
    exit 1
fi
if printf 'Hello, world!\n' | cmp -s - hello.txt; then
    exit 0
fi
echo "hello.txt holds something else:"
head -c 200 hello.txt
exit 1
