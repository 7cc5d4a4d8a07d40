#!/bin/sh
sort -nu numbers.txt > sorted.txt
