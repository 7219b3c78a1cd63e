#!/bin/sh
# needs: fake
gdpa-jit doctor >out.txt
echo "code $?"
sed -n '1,/^$/p' out.txt | cut -c 1-18
grep -c '^nvrtc.path: ' out.txt
grep '^cache.path' out.txt
gdpa-jit doctor --json | grep -o '"name":"[a-z]*","state":"[a-z]*"'
