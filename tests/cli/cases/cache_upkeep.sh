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
gdpa-jit cache clear
gdpa-jit list
