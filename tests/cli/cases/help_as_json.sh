#!/bin/sh
# A list of everything that can be asked for.
gdpa-jit help --json >help.json
grep -o '"name":"warm","summary":"[^"]*"' help.json
grep -o '"name":"[a-z]*","summary"' help.json | wc -l
wc -l <help.json
