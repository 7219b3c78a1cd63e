#!/bin/sh
# needs: fake
spec='fwd head_dim=32 activation=relu arch=sm_80'
gdpa-jit show cubin "$spec" --output kernel.cubin
gdpa-jit show cubin "$spec" --json | sed 's/.*"base64":"\([^"]*\)".*/\1/' | base64 -d | cmp - kernel.cubin && echo "the same bytes"
gdpa-jit show ptx "$spec" --output no-such-folder/x
