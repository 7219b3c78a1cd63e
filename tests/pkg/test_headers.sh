#!/bin/sh
# The public header compiles alone, without any CUDA header, in every language that it promises.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/use.c" <<'END'
#include <gdpajit.h>

int use(void);
int use(void)
{
    gdpa_ctx_options options = GDPA_CTX_OPTIONS_INIT;
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_args args = GDPA_ARGS_INIT;
    return options.size == sizeof(options) && spec.size == sizeof(spec) && args.size == sizeof(args);
}
END
cp "$scratch/use.c" "$scratch/use.cpp"

compile() {
    language=$1
    shift
    "$@" -Wall -Wextra -Wpedantic -Wstrict-aliasing -Werror -I include -c -o "$scratch/use.o" "$scratch/use.$language"
}

# A compiler that does not know the language would make the test pass for nothing.
breaks_on_a_fault() {
    echo 'int broken(void) { return gdpa_no_such_type; }' >"$scratch/broken.c"
    ! "${CC:-cc}" -I include -c -o "$scratch/broken.o" "$scratch/broken.c" 2>/dev/null
}

tap_test a_fault_is_noticed breaks_on_a_fault
for compiler in "${CC:-cc}" gcc clang; do
    for standard in c99 c11 c17; do
        name=header_compiles_with_$(basename "$compiler")_as_$standard
        if command -v "$compiler" >/dev/null; then
            tap_test "$name" compile c "$compiler" -std=$standard -Wstrict-prototypes
        else
            tap_skip "$name" "$compiler is not installed"
        fi
    done
done
for compiler in "${CXX:-g++}" clang++; do
    for standard in c++11 c++17 c++20; do
        name=header_compiles_with_$(basename "$compiler")_as_$standard
        if command -v "$compiler" >/dev/null; then
            tap_test "$name" compile cpp "$compiler" -std=$standard
        else
            tap_skip "$name" "$compiler is not installed"
        fi
    done
done
tap_end
