#!/bin/sh
# Brings what a build and the tests need, and does nothing (in a fraction of a second) when all of it is there:
#   1. Debian packages: installed when root, else the one line that installs them is printed and the exit code is 1;
#   2. NVRTC: that of a CUDA toolkit, else NVIDIA's wheel, unpacked into the private folder .deps/ of this tree;
#   3. with --tests: nvdisasm in the same way (a few tests look at machine code; without it they are skipped);
#   4. with --lint: the programs behind `make format-check` and `make lint`, and those that tests use where they are there.
# GDPAJIT_SETUP_NO_TOOLKIT=1 leaves toolkits out of the search.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
deps="$root/.deps"
compiler=${CC:-cc}
want_tests=0
want_lint=0

usage() {
    echo "usage: scripts/setup.sh [--tests] [--lint]"
}

say() {
    echo "setup: $*"
}

fail() {
    echo "setup: $*" >&2
    exit 1
}

has_program() {
    command -v "$1" >/dev/null 2>&1
}

has_header() {
    echo "#include <$1>" | "$compiler" -E -x c - >/dev/null 2>&1
}

# The compiler prints a path when it finds the file, else the bare name.
has_library() {
    case $("$compiler" -print-file-name="$1" 2>/dev/null) in
    */*) return 0 ;;
    *) return 1 ;;
    esac
}

has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null
}

has_pip() {
    python3 -m pip --version >/dev/null 2>&1
}

missing=
need() {
    package=$1
    shift
    "$@" || missing="$missing $package"
}

find_missing_packages() {
    missing=
    need gcc has_program "$compiler"
    need gcc has_program gcc
    need g++ has_program g++
    need make has_program make
    need libc6-dev has_header stdio.h
    need libsqlite3-dev has_header sqlite3.h
    need libsqlite3-dev has_library libsqlite3.a
    need libzstd-dev has_header zstd.h
    need libzstd-dev has_library libzstd.a
    need libxxhash-dev has_header xxhash.h
    need libxxhash-dev has_library libxxhash.a
    need libmd-dev has_header sha2.h
    need libmd-dev has_library libmd.a
    need libjansson-dev has_header jansson.h
    need libjansson-dev has_library libjansson.a
    need libcmocka-dev has_library libcmocka.so
    need pkg-config has_program pkg-config
    need scdoc has_program scdoc
    need python3 has_program python3
    need_for_wheels
    if [ "$want_lint" = 1 ]; then
        need clang has_program clang
        need libclang-rt-dev has_fuzzer
        need clang-format has_program clang-format
        need clang-tidy has_program clang-tidy
        need cppcheck has_program cppcheck
        need codespell has_program codespell
        need shellcheck has_program shellcheck
        need git has_program git
        need cmake has_program cmake
    fi
    # shellcheck disable=SC2086 # one word a package
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ' | sed 's/ *$//')
}

# pip only where a wheel has to be fetched.
need_for_wheels() {
    if ! "$root/scripts/find-nvrtc.sh" >/dev/null 2>&1 || { [ "$want_tests" = 1 ] && ! find_nvdisasm >/dev/null; }; then
        need python3-pip has_pip
        need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
    fi
}

install_packages() {
    find_missing_packages
    if [ -z "$missing" ]; then
        return
    fi
    line="apt-get install --no-install-recommends -y $missing"
    if ! has_program apt-get; then
        fail "these are missing, by their Debian names: $missing; install them with this system's package manager"
    fi
    if [ "$(id -u)" != 0 ]; then
        fail "some packages are missing; run this, then start again:
    sudo $line"
    fi
    say "installing $missing"
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive $line; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "'$line' failed as printed above; is the package archive reachable?"
    fi
    rm -f "$log"
    find_missing_packages
    if [ -n "$missing" ]; then
        fail "installed, but still not usable: $missing (is $compiler the compiler that should be used?)"
    fi
}

find_nvdisasm() {
    for candidate in "$(command -v nvdisasm)" "${CUDA_HOME:-}/bin/nvdisasm" /usr/local/cuda/bin/nvdisasm \
        "$deps/nvidia-cuda-nvdisasm/nvdisasm"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# Downloads one wheel of wheels.txt and moves the files that match the patterns into .deps/NAME, which appears whole or
# not at all.
fetch_wheel() {
    name=$1
    shift
    mkdir -p "$deps" || return 1
    scratch=$(mktemp -d "$deps/fetch.XXXXXX") || return 1
    sed -n "/^$name==/,/[^\\\\]\$/p" "$root/scripts/wheels.txt" >"$scratch/requirements.txt"
    say "downloading $(sed -n '1s/ .*//p' "$scratch/requirements.txt")"
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        --dest "$scratch" --requirement "$scratch/requirements.txt" >"$scratch/log" 2>&1; then
        tail -n 10 "$scratch/log" >&2
        rm -rf "$scratch"
        return 1
    fi
    mkdir "$scratch/unpacked" "$scratch/result"
    if ! python3 -m zipfile -e "$scratch"/*.whl "$scratch/unpacked"; then
        rm -rf "$scratch"
        return 1
    fi
    for pattern in "$@"; do
        find "$scratch/unpacked" -type f -name "$pattern" -exec mv {} "$scratch/result/" \;
    done
    find "$scratch/unpacked" -type f -iname 'license*' -exec mv {} "$scratch/result/LICENSE.txt" \;
    rm -rf "${deps:?}/$name"
    mv "$scratch/result" "$deps/$name" && rm -rf "$scratch"
}

install_nvrtc() {
    if nvrtc=$("$root/scripts/find-nvrtc.sh"); then
        say "NVRTC is $nvrtc"
        return
    fi
    if [ -n "${GDPAJIT_NVRTC:-}" ]; then
        exit 1
    fi
    if ! fetch_wheel nvidia-cuda-nvrtc 'libnvrtc.so.13' 'libnvrtc-builtins.so.13.*'; then
        fail "could not get NVRTC: the package index was not reachable or refused (see above). With a CUDA 13 toolkit
    installed, or GDPAJIT_NVRTC=/path/to/libnvrtc.so.13, no download is needed"
    fi
    nvrtc=$("$root/scripts/find-nvrtc.sh") || fail "the NVRTC wheel does not hold libnvrtc.so.13"
    say "NVRTC is $nvrtc"
}

install_nvdisasm() {
    if find_nvdisasm >/dev/null; then
        return
    fi
    if ! fetch_wheel nvidia-cuda-nvdisasm nvdisasm || ! chmod +x "$deps/nvidia-cuda-nvdisasm/nvdisasm"; then
        say "nvdisasm could not be downloaded: tests that look at machine code will be skipped"
    fi
}

for argument in "$@"; do
    case $argument in
    --tests) want_tests=1 ;;
    --lint) want_lint=1 ;;
    --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
done

install_packages
install_nvrtc
if [ "$want_tests" = 1 ]; then
    install_nvdisasm
fi
exit 0
