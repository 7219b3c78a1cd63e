#!/bin/sh
# Both libraries show the functions of the public header and nothing else: no sqlite, zstd or xxhash reaches a program
# that uses them, and the shared library needs nothing but the C library.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
build=${BUILD:-build}
shared=$build/libgdpajit.so
static=$build/libgdpajit.a

# What the header declares, one name a line.
declared() {
    sed -n 's/^GDPA_API .*[ *]\(gdpa_[a-z_]*\)(.*/\1/p' include/gdpajit.h | LC_ALL=C sort
}

shown_by_shared() {
    nm -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort
}

shown_by_static() {
    nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort
}

same_names() {
    scratch=$(mktemp -d)
    declared >"$scratch/declared"
    "$1" >"$scratch/shown"
    diff -u "$scratch/declared" "$scratch/shown"
    code=$?
    rm -rf "$scratch"
    return "$code"
}

header_declares_functions() {
    [ "$(declared | wc -l)" -gt 20 ]
}

versions_are_nodes() {
    nm -D --defined-only --with-symbol-versions "$shared" | awk '$2 != "A" && $3 !~ /@@GDPAJIT_[0-9.]+$/ { print; bad = 1 }
        END { exit bad }'
}

soname_is_major_version() {
    readelf -d "$shared" | grep -q "SONAME.*\[libgdpajit\.so\.$(sed -n 's/^#define GDPA_VERSION_MAJOR //p' include/gdpajit.h)\]"
}

needs_only_the_c_library() {
    readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libdl|libpthread|ld-linux[-_a-z0-9]*)\.so' | awk '{ print; bad = 1 } END { exit bad }'
}

has_no_text_relocations() {
    ! readelf -d "$shared" | grep -q TEXTREL
}

third_party_code_is_inside() {
    nm "$shared" | grep -q ' t sqlite3_open_v2$' && nm "$shared" | grep -q ' t ZSTD_decompress$'
}

tap_test header_declares_functions header_declares_functions
tap_test shared_library_shows_the_functions_of_the_header_and_no_other same_names shown_by_shared
tap_test static_library_shows_the_functions_of_the_header_and_no_other same_names shown_by_static
tap_test every_symbol_carries_the_version_node versions_are_nodes
tap_test soname_is_the_major_version soname_is_major_version
tap_test shared_library_has_no_text_relocations has_no_text_relocations
if [ "${SYSTEM_LIBS:-}" = 1 ]; then
    tap_skip shared_library_needs_only_the_c_library "built with SYSTEM_LIBS=1"
    tap_skip sqlite_and_zstd_are_inside_and_hidden "built with SYSTEM_LIBS=1"
else
    tap_test shared_library_needs_only_the_c_library needs_only_the_c_library
    tap_test sqlite_and_zstd_are_inside_and_hidden third_party_code_is_inside
fi
tap_end
