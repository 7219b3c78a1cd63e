#!/bin/sh
# scripts/setup.sh: quiet when all is there, one clear line when it cannot go on, and nothing half-done left behind.
# It runs on a copy of the scripts, with programs of this test first in PATH.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" && cp -r scripts "$scratch/scripts"
real_nvrtc=$(scripts/find-nvrtc.sh)

# A program that answers as told: fake NAME SHELL-TEXT
fake() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1" && chmod +x "$scratch/bin/$1"
}

# run CODE PATTERN COMMAND...: the command ends with CODE and prints PATTERN.
run() {
    expected=$1
    pattern=$2
    shift 2
    PATH=$scratch/bin:$PATH "$@" >"$scratch/output" 2>&1
    code=$?
    cat "$scratch/output"
    echo "ended with $code"
    [ "$code" = "$expected" ] && grep -q -e "$pattern" "$scratch/output"
}

run_setup() {
    run "$1" "$2" env "GDPAJIT_NVRTC=$real_nvrtc" "$scratch/scripts/setup.sh"
}

is_quiet_when_all_is_there() {
    run_setup 0 '^setup: NVRTC is /' && [ "$(wc -l <"$scratch/output")" = 1 ]
}

user_gets_the_line_to_run() {
    fake id 'echo 1000'
    run 1 'sudo apt-get install --no-install-recommends -y .*gcc' env CC=no-such-compiler \
        "GDPAJIT_NVRTC=$real_nvrtc" "$scratch/scripts/setup.sh"
}

failed_install_is_reported() {
    fake id 'echo 0'
    fake apt-get 'echo "E: no archive"; exit 100'
    run 1 'is the package archive reachable' env CC=no-such-compiler "GDPAJIT_NVRTC=$real_nvrtc" \
        "$scratch/scripts/setup.sh" && grep -q 'E: no archive' "$scratch/output"
}

bad_nvrtc_is_refused() {
    run 1 'GDPAJIT_NVRTC is set to /no/such/file' env GDPAJIT_NVRTC=/no/such/file "$scratch/scripts/setup.sh"
}

failed_download_leaves_nothing() {
    # pip is there but cannot download.
    fake python3 'case "$*" in *--version*) echo pip 23;; *) echo "no route to the index"; exit 1;; esac'
    run 1 'could not get NVRTC' env -u GDPAJIT_NVRTC GDPAJIT_SETUP_NO_TOOLKIT=1 "$scratch/scripts/setup.sh"
    result=$?
    rm -f "$scratch/bin/python3"
    [ "$result" = 0 ] && grep -q 'no route to the index' "$scratch/output" && [ -z "$(ls -A "$scratch/.deps")" ]
}

private_folder_is_found() {
    mkdir -p "$scratch/.deps/nvidia-cuda-nvrtc" && : >"$scratch/.deps/nvidia-cuda-nvrtc/libnvrtc.so.13" || return 1
    run 0 "$scratch/.deps/nvidia-cuda-nvrtc/libnvrtc.so.13" env -u GDPAJIT_NVRTC GDPAJIT_SETUP_NO_TOOLKIT=1 \
        "$scratch/scripts/find-nvrtc.sh"
    result=$?
    rm -rf "$scratch/.deps"
    return "$result"
}

toolkit_is_found_first() {
    mkdir -p "$scratch/toolkit/lib64" && : >"$scratch/toolkit/lib64/libnvrtc.so.13" || return 1
    run 0 "^$scratch/toolkit/lib64/libnvrtc.so.13" env -u GDPAJIT_NVRTC CUDA_HOME="$scratch/toolkit" \
        "$scratch/scripts/find-nvrtc.sh"
}

unknown_option_is_refused() {
    run 2 '^usage:' "$scratch/scripts/setup.sh" --no-such-option
}

tap_test setup_is_quiet_when_all_is_there is_quiet_when_all_is_there
tap_test user_without_root_gets_the_line_to_run user_gets_the_line_to_run
tap_test failed_package_installation_is_reported failed_install_is_reported
rm -f "$scratch/bin/id" "$scratch/bin/apt-get"
tap_test nvrtc_variable_that_names_nothing_is_refused bad_nvrtc_is_refused
tap_test failed_download_is_reported_and_leaves_nothing failed_download_leaves_nothing
tap_test nvrtc_in_the_private_folder_is_found private_folder_is_found
tap_test nvrtc_of_a_toolkit_comes_first toolkit_is_found_first
tap_test unknown_option_is_refused unknown_option_is_refused
tap_end
