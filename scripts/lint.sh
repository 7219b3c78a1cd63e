#!/bin/sh
# Static checks. A program that is not installed is skipped with a line that says so; set REQUIRE_ALL=1 (as CI does) to
# make that a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
status=0
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

# step NAME PROGRAM COMMAND...: runs the command when the program is there.
step() {
    name=$1
    program=$2
    shift 2
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "lint: $name skipped, $program is not installed"
        if [ "${REQUIRE_ALL:-0}" = 1 ]; then
            status=1
        fi
        return
    fi
    if "$@"; then
        echo "lint: $name clean"
    else
        echo "lint: $name FAILED"
        status=1
    fi
}

sources() {
    find gen cache runtime tools tests/support tests/gen tests/cache tests/runtime tests/tools tests/templates tests/gpu \
        tests/hardware tests/fuzz -name '*.c' 2>/dev/null | LC_ALL=C sort
}

run_shellcheck() {
    # shellcheck disable=SC2046 # no name has a blank
    shellcheck $(find scripts tests .ci -name '*.sh' -o -path '.ci/run' | LC_ALL=C sort)
}

run_codespell() {
    find . -type f -not -path './.git/*' -not -path './.deps/*' -not -path './build*' -not -path './tests/golden/*' \
        -not -name '*.jsonl' -not -name LICENSE -print0 |
        xargs -0 codespell --ignore-words scripts/codespell-ignore.txt
}

run_cppcheck() {
    # shellcheck disable=SC2046
    cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 -j "$jobs" \
        --suppress=missingIncludeSystem --suppress=nullPointer --suppress=nullPointerRedundantCheck \
        --suppress=returnDanglingLifetime -I . -I include \
        -D_POSIX_C_SOURCE=200809L -DTEST_BUILD_DIR='"x"' -DTEST_SOURCE_DIR='"x"' $(sources)
}

# Settings are in .clang-tidy and tests/.clang-tidy.
run_clang_tidy() {
    sources | xargs -P "$jobs" -I '{}' clang-tidy --quiet '{}' -- -std=c11 -D_POSIX_C_SOURCE=200809L -I. -Iinclude \
        -DTEST_BUILD_DIR='"x"' -DTEST_SOURCE_DIR='"x"' 2>&1 | grep -v '^[0-9]* warnings\{0,1\} generated' >"$scratch"
    cat "$scratch"
    ! grep -q ': \(error\|warning\): ' "$scratch"
}

step dependency-direction sh scripts/check-direction.sh
step sizes sh scripts/check-size.sh
step documents python3 scripts/docs-check.py
step shellcheck shellcheck run_shellcheck
step codespell codespell run_codespell
step cppcheck cppcheck run_cppcheck
step clang-tidy clang-tidy run_clang_tidy
exit $status
