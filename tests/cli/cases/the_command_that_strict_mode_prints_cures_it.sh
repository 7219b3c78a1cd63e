#!/bin/sh
# needs: fake
# To the letter: it is run as it is printed.
unset GDPAJIT_CACHE_DIR
mkdir "it's here"
GDPAJIT_MODE=strict gdpa-jit warm 'head_dim=32 activation=relu arch=sm_80' --cache-dir "$HOME/it's here" --jobs 1 2>err.txt >/dev/null
echo "code $?"
cat err.txt
sed -n 's/.*to put it there: //p' err.txt >cure.sh
sh cure.sh | sed '/^slowest/,$d'
GDPAJIT_MODE=strict gdpa-jit warm "head_dim=32 activation=relu arch=sm_80" --cache-dir "$HOME/it's here" --jobs 1
