#!/bin/sh
# needs: fake
# A path may hold line ends, quotes, and bytes that are no UTF-8; every line of --json is valid, and values stay whole.
odd=$(printf 'a\377\001b"\\\n\342\202c')
export GDPAJIT_CACHE_DIR="$PWD/$odd"
check() {
    gdpa-jit "$@" --json >out.json 2>err.txt
    code=$?
    echo "$1 $(echo "${2:-}" | tr -d -c '[:lower:]'): $code"
    python3 -c 'import json, sys; [json.loads(line) for line in open("out.json", encoding="utf-8")]' || cat out.json err.txt
    head -c 300 err.txt
}
check warm head_dim=32 activation=relu arch=sm_80
check cache stats
check cache path
check cache verify
check cache gc
check list
check env
grep -c '"origin":"environment"' out.json
check doctor
grep -c '"cache.origin":"GDPAJIT_CACHE_DIR"' out.json
check why head_dim=32 activation=relu arch=sm_80
grep -c '"found":"/.*kernels-v1.sqlite3"' out.json
check why head_dim=40 activation=relu arch=sm_80
check pack "$odd.pack"
check unpack "$odd.pack"
check cache clear
