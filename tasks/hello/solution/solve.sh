#!/bin/sh
# What the oracle agent runs: a task is sound when this passes and doing nothing fails.
echo 'Hello, world!' > hello.txt
