#!/bin/sh
# needs: fake
# A device, a folder, a link or the files of a cache under the name of a pack stay what they are.
gdpa-jit warm head_dim=32 activation=relu arch=sm_80 --quiet
mkdir folder
mkfifo pipe
echo kept >aim
ln -s aim link
for name in '' . folder folder/ pipe link /dev/null cache/kernels-v1.sqlite3 kernels-v2.sqlite3 none/x.pack; do
    gdpa-jit pack "$name" --quiet
    echo "'$name': $?"
done 2>&1 | sed 's/\.tmp-[A-Za-z0-9]*/.tmp-X/'
cat aim
[ -p pipe ] && [ -L link ] && [ -c /dev/null ] && echo 'all there'
gdpa-jit cache verify
find . -name '*.tmp-*'
