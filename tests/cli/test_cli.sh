#!/bin/sh
# Runs the scripts of tests/cli/cases and compares what gdpa-jit writes and returns with the files beside them:
# NAME.sh with NAME.out, NAME.err (absent: nothing is written) and NAME.rc (absent: 0).
#
# Each script runs in an empty folder of its own, which is also its home and holds its cache, without a GPU and without
# settings of the caller. A line "# needs: fake" in a script gives it the compiler of tests/support/fake_nvrtc.c, and the
# path of a driver like that as FAKE_DRIVER; "# needs: nvrtc" skips it where there is no real NVRTC. What differs from
# run to run or with every change of a template is replaced first: see normalise. GDPA_GOLDEN_UPDATE=1 writes the
# expected files anew (make golden-update). Names of scripts as arguments run those alone.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
build=$(cd "${BUILD:-build}" && pwd) || exit 1
cases=$PWD/tests/cli/cases
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
program=$build/gdpa-jit
fake_nvrtc=$build/tests/libfake_nvrtc.so
fake_driver=$build/tests/libfake_driver.so

# clean_run FOLDER COMPILER COMMAND...: in the environment of a script. COMPILER may be empty: searched for.
clean_run() {
    folder=$1
    compiler=$2
    shift 2
    env -i PATH="$build:/usr/bin:/bin" LC_ALL=C HOME="$folder" TMPDIR="$folder" GDPAJIT_CACHE_DIR="$folder/cache" \
        ${compiler:+"GDPAJIT_NVRTC=$compiler"} FAKE_DRIVER="$fake_driver" GDPAJIT_LIBCUDA=/no-gpu-in-these-tests/libcuda.so.1 \
        ${ASAN_OPTIONS:+"ASAN_OPTIONS=$ASAN_OPTIONS"} ${LSAN_OPTIONS:+"LSAN_OPTIONS=$LSAN_OPTIONS"} \
        ${UBSAN_OPTIONS:+"UBSAN_OPTIONS=$UBSAN_OPTIONS"} COLUMNS=80 "$@"
}

# Folders, times, hashes, versions, the numbers that every better template or compiler changes, and lists of all options
# or activations.
normalise() {
    sed -E \
        -e "s|$1|SCRATCH|g" \
        -e "s|$build|BUILD|g" \
        -e 's|/no-gpu-in-these-tests/libcuda.so.1: [^(]*\(|LIBCUDA: (|' \
        -e 's/\(options: head_dim, [a-z_, ]*\)/(options: ALL)/' \
        -e 's/(legal are identity|known are [a-z0-9_]*), [a-z0-9_, ]*/\1, MORE/' \
        -e 's/[0-9a-f]{32}/HASH/g' \
        -e 's/^[0-9a-f]{12}  /HASH12  /' \
        -e 's/(gdpa_(fwd|bwd)_[a-z0-9_]*)_[0-9a-f]{8}/\1_HASH8/g' \
        -e 's/ +[0-9]+ ms/ N ms/g' \
        -e 's/[0-9]+\.[0-9] s,/T s,/g' \
        -e 's/[0-9]+ at a time/N at a time/' \
        -e 's/at most [0-9]+ MiB/at most N MiB/' \
        -e 's/ +[0-9]+ registers/ N registers/' \
        -e 's/"(seconds|generate_ms|compile_ms|jobs|registers|spill_bytes|stack_bytes|smem_dynamic|threads|binary_bytes|stored_bytes|worker_peak_bytes|bytes|part_bytes|file_bytes|blocks|by_registers|by_smem|by_warps|by_blocks|warps|warps_limit)":[0-9.e+-]+/"\1":0/g' \
        -e 's/"limiter":"[a-z ]*"/"limiter":"X"/' \
        -e 's/"(program|library|nvrtc)":"[0-9.]+"/"\1":"VERSION"/g' \
        -e 's/"build":"[^"]*"/"build":"X"/' \
        -e 's/^gdpa-jit [0-9]+\.[0-9]+\.[0-9]+/gdpa-jit VERSION/'
}

# needs NAME WHAT: whether the script asks for it.
needs() {
    grep -q "^# needs: $2\$" "$cases/$1.sh"
}

compare() {
    expected=$1
    found=$2
    if [ "${GDPA_GOLDEN_UPDATE:-}" = 1 ]; then
        if [ -s "$found" ]; then
            cp "$found" "$expected"
        else
            rm -f "$expected"
        fi
        return 0
    fi
    [ -e "$expected" ] || expected=/dev/null
    diff -u "$expected" "$found"
}

run_case() {
    name=$1
    folder=$scratch/$name
    mkdir "$folder"
    compiler=${GDPAJIT_NVRTC:-}
    if needs "$name" fake; then
        compiler=$fake_nvrtc
    fi
    (cd "$folder" && clean_run "$folder" "$compiler" sh -u "$cases/$name.sh") >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
    normalise "$folder" <"$scratch/out" >"$scratch/$name.out"
    normalise "$folder" <"$scratch/err" >"$scratch/$name.err"
    : >"$scratch/$name.rc"
    [ "$code" = 0 ] || echo "$code" >"$scratch/$name.rc"
    good=0
    for part in out err rc; do
        compare "$cases/$name.$part" "$scratch/$name.$part" || good=1
    done
    return "$good"
}

expected_files_have_a_script() {
    bad=0
    for file in "$cases"/*.out "$cases"/*.err "$cases"/*.rc; do
        if [ -e "$file" ] && [ ! -e "${file%.*}.sh" ]; then
            echo "$file belongs to no script"
            bad=1
        fi
    done
    return "$bad"
}

nvrtc=no
if clean_run "$scratch" "${GDPAJIT_NVRTC:-}" "$program" doctor --json 2>/dev/null |
    grep -q '"name":"nvrtc","state":"ok"'; then
    nvrtc=yes
fi
if [ $# = 0 ]; then
    set -- "$cases"/*.sh
    tap_test expected_files_have_a_script expected_files_have_a_script
fi
for script in "$@"; do
    name=$(basename "$script" .sh)
    if [ "$nvrtc" = no ] && needs "$name" nvrtc; then
        tap_skip "$name" "no NVRTC library was found"
    elif [ ! -e "$fake_nvrtc" ] && needs "$name" fake; then
        tap_skip "$name" "$fake_nvrtc is not built; make tests builds it"
    else
        tap_test "$name" run_case "$name"
    fi
done
tap_end
