#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
gdpa-jit list --columns spec --color always | od -c | sed -n 1p
gdpa-jit list --columns spec | od -c | sed -n 1p
NO_COLOR=1 gdpa-jit list --columns spec --color auto | od -c | sed -n 1p
