#!/bin/sh
# Installs into a scratch DESTDIR, builds the examples from there as a user would (pkg-config, CMake; shared, static),
# runs those that need no GPU, and uninstalls again without leaving anything.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
build=${BUILD:-build}
cc=${CC:-cc}
cxx=${CXX:-g++}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
prefix=/opt/gdpa
libdir=$prefix/lib64
installed=$root$libdir
spec="fwd head_dim=64 activation=relu causal arch=sm_80"

run_make() {
    make --no-print-directory BUILD="$build" CC="$cc" SAN="${SAN:-}" SYSTEM_LIBS="${SYSTEM_LIBS:-}" \
        DESTDIR="$root" PREFIX="$prefix" libdir="$libdir" "$@"
}

files() {
    (cd "$root" && find . -type f -o -type l | LC_ALL=C sort)
}

installs() {
    run_make install
}

has_every_part() {
    version=$(sed -n 's/^#define GDPA_VERSION_STRING "\(.*\)"/\1/p' include/gdpajit.h)
    for file in lib64/libgdpajit.a "lib64/libgdpajit.so.$version" lib64/libgdpajit.so include/gdpajit.h bin/gdpa-jit \
        lib64/pkgconfig/gdpajit.pc lib64/cmake/gdpajit/gdpajit-config.cmake share/doc/gdpajit/LICENSE; do
        [ -e "$root$prefix/$file" ] || {
            echo "$prefix/$file is not there"
            return 1
        }
    done
    for source in docs/man/*.scd; do
        page=$(basename "$source" .scd)
        [ -s "$root$prefix/share/man/man${page##*.}/$page" ] || {
            echo "man page $page is not there"
            return 1
        }
    done
}

names_no_scratch_folder() {
    ! grep -rlF -e "$scratch" -e "$(pwd)" "$root$prefix"
}

# pkg-config as after a real installation: the folders are those below DESTDIR.
config() {
    PKG_CONFIG_PATH=$installed/pkgconfig pkg-config "--define-variable=libdir=$installed" \
        "--define-variable=includedir=$root$prefix/include" "$@" gdpajit
}

config_knows_version() {
    [ "$(config --modversion)" = "$(sed -n 's/^#define GDPA_VERSION_STRING "\(.*\)"/\1/p' include/gdpajit.h)" ]
}

# build_c NAME OUTPUT FLAGS...
build_c() {
    name=$1
    output=$2
    shift 2
    # shellcheck disable=SC2046 # flags are words
    "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror "examples/$name.c" -o "$scratch/$output" \
        $(config --cflags) "$@"
}

builds_shared() {
    # shellcheck disable=SC2046
    build_c generate generate $(config --libs) && build_c attention attention $(config --libs) -ldl &&
        "$cxx" -std=c++11 -Wall -Wextra -Werror examples/check_spec.cpp -o "$scratch/check_spec" $(config --cflags --libs) &&
        readelf -d "$scratch/generate" | grep -q 'NEEDED.*libgdpajit\.so\.'
}

builds_static() {
    mkdir -p "$scratch/static" && cp "$installed/libgdpajit.a" "$scratch/static/" || return 1
    # The folder that is searched first has no shared library.
    # shellcheck disable=SC2046
    build_c generate generate_static "-L$scratch/static" $(config --static --libs) &&
        ! readelf -d "$scratch/generate_static" | grep -q 'NEEDED.*libgdpajit'
}

runs_shared() {
    LD_LIBRARY_PATH=$installed "$scratch/generate" "$spec" >"$scratch/shared.cu" &&
        grep -q __global__ "$scratch/shared.cu"
}

runs_static() {
    "$scratch/generate_static" "$spec" >"$scratch/static.cu" && cmp "$scratch/shared.cu" "$scratch/static.cu"
}

attention_says_what_it_needs() {
    LD_LIBRARY_PATH=$installed "$scratch/attention" >"$scratch/attention.out" 2>&1
    code=$?
    cat "$scratch/attention.out"
    if scripts/has-gpu.sh; then
        [ "$code" = 0 ] && grep -q 'largest difference 0$' "$scratch/attention.out"
    else
        [ "$code" = 3 ] && grep -q 'needs a GPU' "$scratch/attention.out"
    fi
}

cxx_example_accepts_and_refuses() {
    LD_LIBRARY_PATH=$installed "$scratch/check_spec" "$spec" "fwd head_dim=100 activation=relu" >"$scratch/check.out"
    [ $? = 1 ] && [ "$(wc -l <"$scratch/check.out")" = 2 ] && grep -q '^fwd head_dim=64' "$scratch/check.out" &&
        grep -q '^refused: .*100' "$scratch/check.out"
}

installed_program_runs() {
    "$root$prefix/bin/gdpa-jit" --help | grep -q warm
}

cmake_project_builds() {
    mkdir -p "$scratch/cmake" && cat >"$scratch/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(gdpajit 0.1 REQUIRED)
foreach(kind gdpajit gdpajit_static)
    add_executable(consumer_\${kind} $(pwd)/examples/generate.c)
    target_link_libraries(consumer_\${kind} PRIVATE gdpajit::\${kind})
endforeach()
END
    cmake -S "$scratch/cmake" -B "$scratch/cmake/build" -DCMAKE_C_COMPILER="$cc" \
        -Dgdpajit_DIR="$installed/cmake/gdpajit" && cmake --build "$scratch/cmake/build" &&
        "$scratch/cmake/build/consumer_gdpajit" "$spec" | cmp - "$scratch/shared.cu" &&
        "$scratch/cmake/build/consumer_gdpajit_static" "$spec" | cmp - "$scratch/shared.cu"
}

# Of Markdown: "FILE: LINK" for each relative link that leads nowhere.
dead_links() {
    find "$1" -name '*.md' | while read -r page; do
        grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v -e '^$' -e '://' | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
        done
    done
}

links_lead_somewhere() {
    dead_links "$root$prefix/share/doc/gdpajit" >"$scratch/dead"
    cat "$scratch/dead"
    [ ! -s "$scratch/dead" ]
}

installs_parts_alone() {
    run_make DESTDIR="$scratch/part" install-headers &&
        [ "$(cd "$scratch/part" && find . -type f)" = ".$prefix/include/gdpajit.h" ]
}

uninstalls() {
    run_make uninstall || return 1
    files
    [ -z "$(files)" ]
}

tap_test installs_into_a_destination_folder installs
tap_test every_part_is_installed has_every_part
tap_test installed_files_do_not_name_the_build_folder names_no_scratch_folder
tap_test links_of_installed_documents_lead_somewhere links_lead_somewhere
tap_test pkg_config_gives_the_version_of_the_header config_knows_version
tap_test examples_build_against_the_shared_library builds_shared
tap_test examples_build_against_the_static_library builds_static
tap_test example_generates_and_compiles_a_kernel_with_the_shared_library runs_shared
tap_test example_gives_the_same_source_with_the_static_library runs_static
tap_test gpu_example_computes_or_says_what_is_missing attention_says_what_it_needs
tap_test cxx_example_accepts_and_refuses_specs cxx_example_accepts_and_refuses
tap_test installed_program_runs installed_program_runs
if command -v cmake >/dev/null; then
    tap_test cmake_project_builds_with_both_libraries cmake_project_builds
else
    tap_skip cmake_project_builds_with_both_libraries "cmake is not installed"
fi
tap_test headers_install_alone installs_parts_alone
tap_test uninstall_removes_everything uninstalls
tap_end
