#!/bin/sh
# scripts/run-tests.sh notices every way in which a test program can go wrong, and counts right.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# program NAME SHELL-TEXT
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/$1" && chmod +x "$scratch/$1"
}

# closes CODE LINE PROGRAM...: the runner ends with CODE and LINE as its last line.
closes() {
    expected=$1
    line=$2
    shift 2
    (cd "$scratch" && exec env GDPAJIT_PLANTED=1 "$OLDPWD/scripts/run-tests.sh" -j 2 -t 2 -o log "$@") \
        >"$scratch/output" 2>&1
    code=$?
    cat "$scratch/output"
    [ "$code" = "$expected" ] && [ "$(tail -n 1 "$scratch/output")" = "$line" ]
}

program good 'printf "1..2\nok 1 - one\nok 2 - two\n"'
program skips 'printf "1..2\nok 1 - one\nnot ok 2 # SKIP two\n"'
program fails 'printf "1..2\nok 1 - one\nnot ok 2 - two\n# because of this\n"; exit 1'
program crashes 'printf "1..2\nok 1 - one\n"; kill -SEGV $$'
program stops_short 'printf "1..2\nok 1 - one\n"'
program hangs 'printf "1..1\n"; sleep 60'
program is_silent ':'
program exits_oddly 'printf "1..1\nok 1 - one\n"; exit 3'
# shellcheck disable=SC2016
program sees_settings 'printf "1..1\n"; [ -z "${GDPAJIT_PLANTED:-}" ] && [ "$HOME" != / ] && [ -d "$HOME" ] &&
    echo "ok 1 - clean" || echo "not ok 1 - clean"'

shows_why() {
    closes 1 '1 passed, 1 failed, 0 skipped' ./fails && grep -q '^# because of this' "$scratch/output"
}

names_the_skipped() {
    closes 0 '1 passed, 0 failed, 1 skipped' ./skips && grep -q '^skipped:' "$scratch/output" &&
        grep -q '^  # SKIP two' "$scratch/output"
}

tap_test skipped_test_is_named names_the_skipped
tap_test passing_tests_are_counted_over_programs closes 0 '3 passed, 0 failed, 1 skipped' ./good ./skips
tap_test failing_test_is_counted_and_its_output_shown shows_why
tap_test crash_is_a_failure closes 1 '1 passed, 1 failed, 0 skipped' ./crashes
tap_test missing_results_are_a_failure closes 1 '1 passed, 1 failed, 0 skipped' ./stops_short
tap_test program_that_hangs_is_stopped_and_fails closes 1 '0 passed, 1 failed, 0 skipped' ./hangs
tap_test program_without_tests_fails closes 1 '0 passed, 1 failed, 0 skipped' ./is_silent
tap_test exit_code_without_a_failed_test_is_a_failure closes 1 '1 passed, 1 failed, 0 skipped' ./exits_oddly
tap_test program_that_does_not_exist_fails closes 1 '0 passed, 1 failed, 0 skipped' ./no_such_program
tap_test no_program_at_all_fails closes 1 '0 passed, 1 failed, 0 skipped'
tap_test settings_of_the_caller_do_not_reach_the_tests closes 0 '1 passed, 0 failed, 0 skipped' ./sees_settings
tap_end
