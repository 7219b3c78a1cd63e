#!/bin/sh
# needs: fake
echo text >file
gdpa-jit doctor --cache-dir file --json 2>err.txt >out.txt
echo "code $?"
grep -o '"name":"[a-z]*","state":"[a-z]*"' out.txt
