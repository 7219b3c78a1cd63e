#!/bin/sh
# Every command line of README.md works as it stands there. (make docs-check compiles its programs.)
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
build=${BUILD:-build}
GDPAJIT_CACHE_DIR=$(mktemp -d)
export GDPAJIT_CACHE_DIR
trap 'rm -rf "$GDPAJIT_CACHE_DIR"' EXIT
PATH=$(cd "$build" && pwd):$PATH

# shellcheck disable=SC2016 # backquotes of a document
commands() {
    sed -n '/^```sh$/,/^```$/p' README.md | grep '^gdpa-jit'
}

has_commands() {
    [ "$(commands | wc -l)" -ge 5 ]
}

run_line() {
    output=$(sh -c "$1" 2>&1) || {
        printf '%s\n' "$output"
        return 1
    }
    [ -n "$output" ]
}

commands >"$GDPAJIT_CACHE_DIR/commands"
tap_test readme_has_commands has_commands
while read -r line; do
    name="readme: $line"
    case $line in
    *'# needs a GPU')
        if scripts/has-gpu.sh; then
            tap_test "$name" run_line "$line"
        else
            tap_skip "$name" "no GPU"
        fi
        ;;
    *) tap_test "$name" run_line "$line" ;;
    esac
done <"$GDPAJIT_CACHE_DIR/commands"
tap_end
