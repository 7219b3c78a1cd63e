#!/bin/sh
# Runs test programs side by side and sums their results up.
#
#     scripts/run-tests.sh [-j JOBS] [-t SECONDS] [-o FOLDER] PROGRAM...
#
# A program prints TAP (cmocka does when asked to; tests/support/tap.sh for shell tests). It fails as a whole, which
# counts as one failed test more, when it crashes, hangs for SECONDS, announces more tests than it ends, runs none, or
# ends with an error that no test explains. Outputs are kept as FOLDER/NAME.log; those of failing programs are printed.
# The last line is "N passed, N failed, N skipped"; the exit code is 1 when anything failed.
set -u

# The worker: one program. Leaves FOLDER/NAME.log and FOLDER/NAME.result ("passed failed skipped seconds reason").
if [ "${1:-}" = --one ]; then
    seconds=$2
    folder=$3
    program=$4
    name=$(echo "$program" | sed 's|.*/tests/||; s|^tests/||; s|^\./||; s|/|.|g')
    scratch=$(mktemp -d "$folder/scratch.XXXXXX") || exit 1
    start=$(date +%s%N)
    env HOME="$scratch" XDG_CACHE_HOME="$scratch/cache" TMPDIR="$scratch" CMOCKA_MESSAGE_OUTPUT=TAP \
        timeout -k 10 "$seconds" "$program" >"$folder/$name.log" 2>&1 </dev/null
    code=$?
    rm -rf "$scratch"
    awk -v code="$code" -v limit="$seconds" -v time="$(($(date +%s%N) - start))" '
        /^1\.\.[0-9]+/ { planned += substr($1, 4) }
        /^ok [0-9]+/ { if ($0 ~ /# *SKIP/) skipped++; else passed++ }
        /^not ok [0-9]+/ { if ($0 ~ /# *SKIP/) skipped++; else failed++ }
        END {
            ended = passed + failed + skipped
            if (code == 124 || code == 137) reason = "did not end within " limit " s"
            else if (code > 128) reason = "killed by signal " code - 128
            else if (ended < planned) reason = "ended after " ended " of " planned " tests, exit code " code
            else if (code != 0 && failed == 0) reason = "exit code " code
            else if (ended == 0) reason = "ran no test"
            if (reason != "") failed++
            printf "%d %d %d %.1f %s\n", passed, failed, skipped, time / 1e9, reason
        }' "$folder/$name.log" >"$folder/$name.result"
    read -r passed failed skipped time reason <"$folder/$name.result"
    word=ok
    if [ "$failed" != 0 ]; then
        word=FAILED
    fi
    printf '  %-7s %-40s %4s passed %3s failed %3s skipped %7s s%s\n' "$word" "$name" "$passed" "$failed" "$skipped" \
        "$time" "${reason:+  ($reason)}"
    exit 0
fi

jobs=$(nproc)
seconds=600
folder=
while getopts j:t:o: option; do
    case $option in
    j) jobs=$OPTARG ;;
    t) seconds=$OPTARG ;;
    o) folder=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# A caller's own settings must not reach the tests: only the compiler library that set-up found, and what says where
# the tests' things are.
for variable in $(env | sed -n 's/^\(GDPAJIT_[A-Z0-9_]*\)=.*/\1/p'); do
    if [ "$variable" != GDPAJIT_NVRTC ]; then
        unset "$variable"
    fi
done

if [ -z "$folder" ]; then
    folder=$(mktemp -d)
fi
mkdir -p "$folder" && rm -rf "$folder"/*.log "$folder"/*.result "$folder"/scratch.*
folder=$(cd "$folder" && pwd)

if [ $# -gt 0 ]; then
    printf '%s\0' "$@" | xargs -0 -n 1 -P "$jobs" "$0" --one "$seconds" "$folder"
fi

for result in "$folder"/*.result; do
    if [ -e "$result" ] && [ "$(cut -d ' ' -f 2 "$result")" != 0 ]; then
        printf '\n--- %s\n' "$(basename "$result" .result)"
        grep -v '^ok ' "${result%.result}.log" | tail -n 200
    fi
done

skips=$(grep -hE '^(not )?ok [0-9]+ .*# *SKIP' "$folder"/*.log 2>/dev/null | sed -E 's/^(not )?ok [0-9]+ (- )?/  /')
if [ -n "$skips" ]; then
    printf '\nskipped:\n%s\n' "$skips"
fi

set -- "$folder"/*.result
if [ ! -e "$1" ]; then
    echo "run-tests.sh: no test was run" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
printf '\n'
awk '{ passed += $1; failed += $2; skipped += $3 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }' "$@"
