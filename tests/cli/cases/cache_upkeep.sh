#!/bin/sh
# needs: fake
gdpa-jit cache path
gdpa-jit cache stats | cut -c 1-8
gdpa-jit warm head_dim=32 activation=relu,identity,square --arch sm_80 --quiet
gdpa-jit cache stats --json
gdpa-jit cache verify
gdpa-jit cache verify --json
gdpa-jit cache remove gdpa_fwd_sm80_d32_bf16_relu
gdpa-jit cache remove gdpa_fwd gdpa_fwd_sm80_d32_bf16_square nothing --json
echo "code $?"
gdpa-jit list --columns spec
gdpa-jit cache gc | sed -E 's/[0-9]+ bytes.*/N bytes/'
touch cache/kernels-v1.sqlite3.damaged-1-0
gdpa-jit cache stats | sed -n 's/^aside *//p'
gdpa-jit cache gc --limit 1k --json | sed -E 's|"bytes_[a-z]*":[0-9]+|"bytes":0|g'
ls cache
gdpa-jit cache gc --limit 1Q
gdpa-jit cache stats --limit 1G
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
gdpa-jit cache clear
gdpa-jit list
