#!/bin/sh
# The reference part of docs/cli.md and of the man page is what gdpa-jit prints of itself, and the man page can be made.
# GDPA_GOLDEN_UPDATE=1 writes the parts anew (make golden-update).
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
program=${BUILD:-build}/gdpa-jit
man_page=docs/man/gdpa-jit.1.scd
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# part_is_current FILE FORMAT: the lines between the two marks are those of gdpa-jit help --FORMAT.
part_is_current() {
    mark="of gdpa-jit help --$2"
    "$program" help "--$2" >"$scratch/part" || return 1
    awk -v mark="$mark" -v part="$scratch/part" '
        index($0, "end " mark) { inside = 0 }
        !inside { print }
        index($0, "begin " mark) {
            inside = 1
            while ((getline line < part) > 0) print line
            print ""
        }' "$1" >"$scratch/whole"
    if [ "$(grep -c "$mark" "$1")" != 2 ]; then
        echo "$1 lacks the marks 'begin $mark' and 'end $mark'"
        return 1
    fi
    if [ "${GDPA_GOLDEN_UPDATE:-}" = 1 ]; then
        cp "$scratch/whole" "$1"
    else
        diff -u "$1" "$scratch/whole"
    fi
}

man_page_can_be_made() {
    scdoc <"$man_page" >"$scratch/page" && grep -q '^.TH' "$scratch/page"
}

# Every variable of the library has an entry.
man_page_has_every_variable() {
    sed 's/\\//g' "$man_page" >"$scratch/page"
    sed -n 's/^ENV([A-Z_]*, "\([A-Z_]*\)".*/\1/p' runtime/env.def >"$scratch/names"
    while read -r name; do
        grep -q "^\*$name\*\$" "$scratch/page" || echo "$name is not in $man_page"
    done <"$scratch/names" >"$scratch/missing"
    cat "$scratch/missing"
    [ -s "$scratch/names" ] && [ ! -s "$scratch/missing" ]
}

# The fields that every command prints are named in the document.
json_types_are_documented() {
    sed -n 's/.*json_report("\([a-z_]*\)").*/\1/p' tools/*.c | sort -u >"$scratch/names"
    while read -r type; do
        grep -q "^|.*\`$type\`.*|.*|.*|\$" docs/cli.md || echo "docs/cli.md has no row for objects of type $type"
    done <"$scratch/names" >"$scratch/missing"
    cat "$scratch/missing"
    [ -s "$scratch/names" ] && [ ! -s "$scratch/missing" ]
}

tap_test reference_of_the_document_is_what_the_program_prints part_is_current docs/cli.md markdown
tap_test reference_of_the_man_page_is_what_the_program_prints part_is_current "$man_page" scdoc
tap_test man_page_has_every_variable man_page_has_every_variable
tap_test every_type_of_json_object_is_documented json_types_are_documented
if command -v scdoc >/dev/null 2>&1; then
    tap_test man_page_can_be_made man_page_can_be_made
else
    tap_skip man_page_can_be_made "scdoc is not installed"
fi
tap_end
