#!/bin/sh
# needs: fake
GDPAJIT_MODE=off gdpa-jit doctor --json >out.txt
echo "code $?"
grep -o '"name":"cache","state":"[a-z]*"' out.txt
