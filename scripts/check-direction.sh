#!/bin/sh
# Holds the one direction of dependencies: gen and cache know nobody, runtime uses both, everything outside uses the
# public header. Prints each include line that breaks it; exit code 1 when there is one.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0

# check FOLDER ALLOWED WHAT: every quoted include of FOLDER matches the extended expression ALLOWED.
check() {
    found=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$1" --include='*.[ch]' --include='*.cuh' |
        grep -vE "include[[:space:]]*\"($2)\"")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" "check-direction: $1 may include only $3" >&2
        status=1
    fi
}

# check_system FOLDER NAMES WHY [EXCEPT]: no angle include of FOLDER starts with one of NAMES, but for the file EXCEPT.
check_system() {
    found=$(grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($2)" "$1" --include='*.[ch]' --include='*.cuh' |
        grep -v "^${4:-no file}:")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" "check-direction: $3" >&2
        status=1
    fi
}

check gen 'gen/[^"]*|include/gdpajit\.h' 'gen/ and the public header'
check cache '(cache/)?[a-z_]+\.h' 'cache/'
check runtime '(runtime|gen|cache)/[^"]*|include/gdpajit\.h|templates/(order_)?params\.h' 'runtime/, gen/, cache/ and the public header'
check tools '(tools|tests/support)/[^"]*|(gen|runtime)/[a-z_]*\.def|include/gdpajit\.h' \
    'tools/, the tables of gen/ and runtime/, the reference of tests/support/ and the public header'
check include 'no-such-file' 'nothing of this project'
check examples 'no-such-file' 'the installed header, in angle brackets'
for folder in gen cache runtime tools include templates; do
    check_system "$folder" 'cuda|nvrtc|cutlass|cute/|cub/|thrust/' \
        'no CUDA header is needed to build, or to compile a kernel'
done
check_system gen 'sqlite3|zstd|jansson|dlfcn|pthread' 'gen/ is pure: no database, no loader, no threads'
check_system cache 'jansson|dlfcn' 'cache/ stores bytes and knows no other library'
check_system runtime 'sqlite3|jansson' 'runtime/ stores through cache/ and neither reads nor writes JSON' runtime/version.c

if [ "$status" = 0 ]; then
    echo 'check-direction: clean'
fi
exit $status
