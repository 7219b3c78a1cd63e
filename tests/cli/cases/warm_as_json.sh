#!/bin/sh
# needs: fake
gdpa-jit warm 'fwd head_dim=32 activation=relu arch=sm_80' --json --jobs 1
gdpa-jit warm 'fwd head_dim=32 activation=relu arch=sm_80' --json --jobs 1
gdpa-jit warm 'fwd head_dim=32 activation=relu,identity arch=sm_80' --json --dry-run
