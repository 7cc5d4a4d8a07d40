#!/bin/sh
# Proves that the task can be solved: `assay run tasks/count-lines --agent oracle` passes, `--agent nop` fails.
wc -l < data.txt > answer.txt
