#!/bin/sh
# needs: nvrtc
gdpa-jit warm --preset minimal --arch sm_80,sm_90a --json --progress never >out.txt
echo "code $?"
grep -c '"state":"compiled"' out.txt
gdpa-jit warm --preset minimal --arch all --dry-run | grep -c '# cached'
gdpa-jit warm --preset minimal --arch sm_80,sm_90a --json --progress never | grep -c '"state":"cached"'
