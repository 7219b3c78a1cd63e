# shellcheck shell=sh
# Shell tests print TAP with these functions; sourced by tests/*/test_*.sh.
#
#     tap_test NAME COMMAND...    one test: passes when the command ends with 0; its output is shown when it does not
#     tap_skip NAME REASON        one test that cannot run here
#     tap_end                     the plan and the exit code; call it last

tap_count=0
tap_failed=0

tap_test() {
    tap_name=$1
    shift
    tap_count=$((tap_count + 1))
    tap_output=$("$@" 2>&1)
    tap_code=$?
    if [ "$tap_code" = 0 ]; then
        echo "ok $tap_count - $tap_name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $tap_name"
        printf '%s\n' "$tap_output" "exit code $tap_code" | sed 's/^/# /'
    fi
}

tap_skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

tap_end() {
    echo "1..$tap_count"
    [ "$tap_failed" = 0 ]
    exit
}
