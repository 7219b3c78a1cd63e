#!/bin/sh
# scripts/sanitize-gpu.sh and scripts/gpu-session.sh with programs made here in place of gdpa-jit and compute-sanitizer:
# what fails is told, and nothing that failed counts as passed. And scripts/gpu-table.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
GDPAJIT_CACHE_DIR=$scratch/cache
export GDPAJIT_CACHE_DIR

# Says what it is asked; FAIL names the words of a call that fails, HANG those of one that does not end.
cat >"$scratch/gdpa-jit" <<'END'
#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
*"${HANG:-no call}"*) sleep 60 ;;
esac
while [ $# -gt 0 ]; do
    case $1 in
    --record) records=$2 ;;
    --matrix) matrix=$2 ;;
    --suite) suite=$2 ;;
    verify | warm | doctor | bench) command=$1 ;;
    esac
    shift
done
case $command in
verify)
    if [ -n "${records:-}" ]; then
        echo '{"spec":"a"}' >"$records/gpu.jsonl"
        : >"$records/gpu.jsonl.new.1"
    fi
    i=0
    while [ "$i" -lt "${FAILURES:-0}" ]; do
        echo "FAILED 12 cases  of a kernel with a long name, which goes on and on and on and on and on and on and on and on and on"
        echo "       and what is wrong with it"
        i=$((i + 1))
    done
    echo "gdpa-jit: 204 of 204 kernels of matrix $matrix" >&2
    ;;
bench)
    i=0
    while [ "$i" -lt 50 ]; do
        echo "{\"case\":\"fwd/$suite/$i\",\"impl\":\"gdpa\",\"tflops\":600.5,\"R\":680.0,\"ratio\":0.88309,\"ms\":1.0}"
        i=$((i + 1))
    done >>"$records/gpu.jsonl"
    ;;
esac
case "$command ${matrix:-} ${suite:-}" in
*"${FAIL:-no call}"*) exit 1 ;;
esac
exit 0
END

# Runs the program behind its options, says SUMMARY (or nothing) and ends with CODE, or as the program did.
cat >"$scratch/bin/compute-sanitizer" <<'END'
#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    shift 2
done
"$@"
code=$?
[ -z "${SUMMARY:-}" ] || echo "========= $SUMMARY"
exit "${CODE:-$code}"
END
chmod +x "$scratch/gdpa-jit" "$scratch/bin/compute-sanitizer"
CALLS=$scratch/calls
export CALLS

# sanitize WORD...: runs the script; its output goes to $scratch/out. NAME=VALUE words come first.
sanitize() {
    : >"$CALLS"
    env PATH="$scratch/bin:$PATH" "$@" >"$scratch/out" 2>&1
}

clean='ERROR SUMMARY: 0 errors'

every_tool_runs_and_racecheck_gets_the_tiny_matrix() {
    sanitize SUMMARY="$clean" scripts/sanitize-gpu.sh "$scratch/gdpa-jit" || return 1
    [ "$(grep -c '^sanitize-gpu: [a-z]* clean' "$scratch/out")" = 4 ] || return 1
    grep -q '^sanitize-gpu: racecheck clean .*matrix tiny' "$scratch/out" &&
        [ "$(grep -c 'verify --matrix small --in-process' "$CALLS")" = 3 ] &&
        [ "$(grep -c 'verify --matrix tiny --in-process' "$CALLS")" = 1 ]
}

named_tools_run_alone() {
    sanitize SUMMARY='RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' scripts/sanitize-gpu.sh \
        "$scratch/gdpa-jit" racecheck || return 1
    [ "$(grep -c '^sanitize-gpu: ' "$scratch/out")" = 1 ]
}

# refused WORD...: the script fails and says so of each tool.
refused() {
    if sanitize "$@" scripts/sanitize-gpu.sh "$scratch/gdpa-jit" memcheck racecheck; then
        return 1
    fi
    [ "$(grep -c '^sanitize-gpu: [a-z]* FAILED' "$scratch/out")" = 2 ] && ! grep -q clean "$scratch/out"
}

errors_fail_by_exit_code() {
    refused SUMMARY="$clean" CODE=99
}

errors_fail_by_summary() {
    refused SUMMARY='ERROR SUMMARY: 10 errors' &&
        refused SUMMARY='RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'
}

a_missing_summary_fails() {
    refused SUMMARY=
}

wrong_results_fail() {
    refused SUMMARY="$clean" FAIL=verify
}

a_missing_sanitizer_is_told() {
    mkdir -p "$scratch/few"
    for tool in sh dirname date mktemp rm; do
        ln -sf "$(command -v "$tool")" "$scratch/few/$tool"
    done
    if env PATH="$scratch/few" CUDA_HOME=/nowhere scripts/sanitize-gpu.sh "$scratch/gdpa-jit" >"$scratch/out" 2>&1; then
        return 1
    fi
    grep -q 'compute-sanitizer is neither' "$scratch/out"
}

# session WORD... [-- OPTION...]
session() {
    : >"$CALLS"
    rm -rf "$scratch/folder"
    variables=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    [ $# = 0 ] || shift
    # shellcheck disable=SC2086 # words without blanks
    env $variables PATH="$scratch/bin:$PATH" scripts/gpu-session.sh "$@" "$scratch/gdpa-jit" "$scratch/folder" \
        >"$scratch/out" 2>&1
}

everything_passes_and_leaves_few_files() {
    session SUMMARY=none -- --only doctor,warm,default,portable,public,bench-portable,bench-forward,bench-backward,bench-jagged || return 1
    [ "$(grep -c '^ok ' "$scratch/out")" = 9 ] && tail -n 1 "$scratch/out" | grep -q '^passed: ' || return 1
    grep -q '^ok  *default .*gdpa-jit: 204 of 204 kernels of matrix default' "$scratch/out" || return 1
    grep -q 'fwd/forward/49  *600.5  0.883' "$scratch/out" || return 1
    [ "$(find "$scratch/folder" -type f | wc -l)" -le 8 ] &&
        [ -z "$(find "$scratch/folder" -mindepth 3)" ] &&
        [ -e "$scratch/folder/hardware/gpu.jsonl" ] && [ -e "$scratch/folder/results/gpu.jsonl" ]
}

the_sanitizers_are_run_when_asked_for() {
    if session SUMMARY=none -- --sanitize; then
        return 1
    fi
    [ "$(grep -c '^FAILED .*sanitize-gpu: ' "$scratch/out")" = 4 ] && [ "$(grep -c '^ok ' "$scratch/out")" = 11 ]
}

a_step_that_fails_is_told_and_the_others_go_on() {
    if session FAIL=portable FAILURES=40 -- --only default,portable,bench-forward; then
        return 1
    fi
    grep -q '^FAILED  *portable .*exit code 1: gdpa-jit: 204' "$scratch/out" &&
        grep -q '^ok  *bench-forward' "$scratch/out" && tail -n 1 "$scratch/out" | grep -q '^FAILED: ' &&
        grep -q '^kernels that failed' "$scratch/out" && [ "$(wc -c <"$scratch/out")" -lt 10000 ]
}

a_step_that_hangs_is_ended_and_what_has_no_time_left_is_told() {
    if session HANG=portable -- --only default,portable,public --limit 5; then
        return 1
    fi
    grep -q '^ok  *default' "$scratch/out" && grep -q '^TIMEOUT  *portable' "$scratch/out" &&
        grep -q '^NOT RUN  *public' "$scratch/out"
}

wrong_words_are_refused() {
    for words in '--unknown' '--limit' '--conformance /no/such/program'; do
        # shellcheck disable=SC2086 # words without blanks
        session -- $words
        [ $? = 2 ] || return 1
        grep -q 'usage: ' "$scratch/out" || return 1
    done
}

# Two shapes, two activations, one place without a ratio and one empty.
record() {
    sed 's/@/"impl":"gdpa","gpu":"A GPU","driver":"1.2","nvrtc":"13.0","date":"2026-01-02"/' <<'END'
{"case":"gemm/bf16/8192","impl":"cublas","tflops":680.4,"R":680.4,"ratio":1.0}
{"case":"fwd/dense/d64/relu",@,"act":"relu","tflops":600.4,"ratio":0.88249}
{"case":"fwd/dense/d64/gelu",@,"act":"gelu","tflops":500.0,"ratio":null}
{"case":"fwd/dense/d128/relu/causal",@,"act":"relu","tflops":1000.0,"ratio":1.4697}
END
}

rates_become_a_table() {
    record >"$scratch/record"
    scripts/gpu-table.sh "$scratch/record" >"$scratch/out" || return 1
    # shellcheck disable=SC2016 # the quotes of the table
    printf '%s\n' 'A GPU, driver 1.2, NVRTC 13.0, 2026-01-02; ratio to R = 680 TFLOP/s, in brackets TFLOP/s.' '' \
        '| case | relu | gelu |' '|---|---|---|' '| `fwd/dense/d64/*` | 0.88 (600) | (500) |' \
        '| `fwd/dense/d128/*/causal` | 1.47 (1000) |  |' | diff - "$scratch/out"
}

a_table_takes_its_place_in_a_document() {
    record >"$scratch/record"
    printf '%s\n' before '<!-- rates -->' old '<!-- end of rates -->' after >"$scratch/document"
    scripts/gpu-table.sh --update "$scratch/document" "$scratch/record" || return 1
    { echo before && echo '<!-- rates -->' && scripts/gpu-table.sh "$scratch/record" && echo '<!-- end of rates -->' &&
        echo after; } | diff - "$scratch/document" || return 1
    echo 'no marks' >"$scratch/document"
    ! scripts/gpu-table.sh --update "$scratch/document" "$scratch/record" 2>/dev/null &&
        [ "$(cat "$scratch/document")" = 'no marks' ] && ! scripts/gpu-table.sh /dev/null 2>/dev/null
}

for test in every_tool_runs_and_racecheck_gets_the_tiny_matrix named_tools_run_alone errors_fail_by_exit_code \
    errors_fail_by_summary a_missing_summary_fails wrong_results_fail \
    everything_passes_and_leaves_few_files the_sanitizers_are_run_when_asked_for \
    a_step_that_fails_is_told_and_the_others_go_on a_step_that_hangs_is_ended_and_what_has_no_time_left_is_told \
    wrong_words_are_refused rates_become_a_table a_table_takes_its_place_in_a_document; do
    tap_test "$test" "$test"
done
toolkit=$(find /usr/local/cuda*/ /opt/cuda/ -maxdepth 2 -name compute-sanitizer 2>/dev/null)
if [ -z "$toolkit" ]; then
    tap_test a_missing_sanitizer_is_told a_missing_sanitizer_is_told
else
    tap_skip a_missing_sanitizer_is_told "there is a toolkit here"
fi
tap_end
