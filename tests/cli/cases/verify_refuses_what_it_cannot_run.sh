#!/bin/sh
for words in '--matrix smal' '--shapes edge' '--shapes ,' '--arch sm_80,sm_90a' '--arch sm_91' '--filter nothing-like-this' \
    '--timeout 0' '--seed x' '--device -1' 'head_dim=63 activation=silu' 'head_dim=64 activation=sulu' '--recrod x' \
    'bwd head_dim=64 activation=relu family=short --list'; do
    # shellcheck disable=SC2086 # several words
    gdpa-jit verify $words
    echo "code $?"
done
