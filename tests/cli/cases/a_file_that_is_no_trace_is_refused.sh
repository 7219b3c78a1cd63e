#!/bin/sh
# needs: fake
# A trace may end in the middle of a line; but something must be in it.
printf 'fwd head_dim=32 dtype=bf16 activation=relu arch=sm_80\nfwd head_d' >half.txt
printf '\377\376\n\0\0\n%0100000d\n' 7 >garbage
: >empty
for file in half.txt garbage empty . none; do
    gdpa-jit warm --trace "$file" --dry-run
    echo "$file: $?"
done 2>&1
