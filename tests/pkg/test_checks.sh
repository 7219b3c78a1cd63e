#!/bin/sh
# The checks of the tree can fail: each gets a copy of the tree with one planted fault. That they pass on the tree as it
# is, is what `make lint` says.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree

# fresh: a new copy of what the checks read
fresh() {
    rm -rf "$tree" && mkdir "$tree" && cp -r ./*.md Makefile .ci "$tree" || return 1
    for folder in include gen cache runtime tools templates examples docs scripts pkg tests bench python; do
        [ ! -e "$folder" ] || cp -r "$folder" "$tree" || return 1
    done
}

# notices CHECK PATTERN: the check fails on the copy and says so
notices() {
    (cd "$tree" && "scripts/$1") >"$scratch/output" 2>&1
    code=$?
    grep -e "$2" "$scratch/output" || tail -n 5 "$scratch/output"
    [ "$code" != 0 ] && grep -q -e "$2" "$scratch/output"
}

wrong_direction() {
    fresh && echo '#include "runtime/error.h"' >>"$tree/cache/key.c" && notices check-direction.sh 'cache may include only'
}

tool_uses_internals() {
    fresh && echo '#include "gen/spec.h"' >>"$tree/tools/main.c" && notices check-direction.sh 'tools may include only'
}

cuda_header() {
    fresh && echo '#include <cuda_bf16.h>' >>"$tree/templates/params.h" && notices check-direction.sh 'no CUDA header'
}

long_function() {
    fresh && {
        echo 'static void far_too_long(void)'
        echo '{'
        seq 61 | sed 's/.*/    step(&);/'
        echo '}'
    } >>"$tree/gen/hash.c" && notices check-size.sh 'gen/hash.c:far_too_long has 61 lines'
}

headless_file() {
    fresh && echo 'int x;' >"$tree/gen/headless.c" && notices check-size.sh 'gen/headless.c does not start with a comment'
}

stale_allowance() {
    fresh && echo 'gen/hash.c:no_such_function 70' >>"$tree/scripts/size-allowed.txt" &&
        notices check-size.sh 'names gen/hash.c:no_such_function'
}

dead_link() {
    fresh && echo 'See [this](docs/no-such-page.md).' >>"$tree/README.md" && notices docs-check.py 'link to docs/no-such-page.md'
}

dead_path() {
    # shellcheck disable=SC2016 # backquotes of a document
    fresh && echo 'See `gen/no_such_file.c`.' >>"$tree/README.md" && notices docs-check.py 'gen/no_such_file.c is not there'
}

unknown_target() {
    # shellcheck disable=SC2016
    fresh && echo 'Run `make no-such-target`.' >>"$tree/README.md" && notices docs-check.py 'no target no-such-target'
}

unknown_variable() {
    # shellcheck disable=SC2016
    fresh && echo 'Set `GDPAJIT_NO_SUCH`.' >>"$tree/README.md" && notices docs-check.py 'GDPAJIT_NO_SUCH is not in'
}

broken_program() {
    # shellcheck disable=SC2016
    fresh && printf '```c\nint main(void) { return gdpa_no_such_call(); }\n```\n' >>"$tree/README.md" &&
        notices docs-check.py 'this program does not compile'
}

undocumented_row() {
    fresh && sed 's/^ACTIVATION(RELU, 2, "relu"/ACTIVATION(RELU, 2, "no_such_activation"/' gen/activations.def \
        >"$tree/gen/activations.def" && notices docs-check.py 'no document names no_such_activation'
}

tap_test include_in_the_wrong_direction_is_noticed wrong_direction
tap_test program_that_uses_internals_is_noticed tool_uses_internals
tap_test cuda_header_in_a_template_is_noticed cuda_header
tap_test long_function_is_noticed long_function
tap_test file_without_head_comment_is_noticed headless_file
tap_test allowance_that_is_not_needed_is_noticed stale_allowance
tap_test dead_link_is_noticed dead_link
tap_test path_that_is_not_there_is_noticed dead_path
tap_test unknown_make_target_is_noticed unknown_target
tap_test unknown_variable_is_noticed unknown_variable
tap_test program_that_does_not_compile_is_noticed broken_program
tap_test table_row_without_document_is_noticed undocumented_row
tap_end
