#!/bin/sh
# The rates of a record of `gdpa-jit bench` as a table for a document: a row a shape, a column an activation, in each place
# the ratio to cuBLAS and the rate in TFLOP/s.
#
#     scripts/gpu-table.sh FILE                       prints it
#     scripts/gpu-table.sh --update DOCUMENT FILE     writes it between the lines "<!-- rates -->" and "<!-- end of rates -->"
#
# FILE is bench/results/<gpu>.jsonl, or any other record.
set -eu
document=
if [ "${1:-}" = --update ]; then
    [ $# = 3 ] || { echo "gpu-table: --update needs a document and a record" >&2; exit 2; }
    document=$2
    shift 2
fi
[ $# = 1 ] || { echo "gpu-table: usage: scripts/gpu-table.sh [--update DOCUMENT] FILE" >&2; exit 2; }

table() {
    awk '
        # Value of a field of a line that the program wrote: one object, no nested ones, no quotes inside of texts.
        function field(name,   at, rest) {
            at = index($0, "\"" name "\":")
            if (at == 0) return ""
            rest = substr($0, at + length(name) + 3)
            sub(/^"/, "", rest)
            sub(/[",}].*/, "", rest)
            return rest
        }
        field("impl") == "cublas" { reference = field("tflops") }
        field("impl") == "gdpa" && field("act") != "" {
            act = field("act")
            count = split(field("case"), parts, "/")
            row = parts[1]
            for (i = 2; i <= count; i++) row = row "/" (parts[i] == act ? "*" : parts[i])
            if (!(row in rows)) { rows[row] = ++row_count; names[row_count] = row }
            if (!(act in acts)) { acts[act] = ++act_count; columns[act_count] = act }
            ratio = field("ratio")
            cells[row, act] = (ratio == "null" ? "" : sprintf("%.2f ", ratio)) sprintf("(%.0f)", field("tflops"))
            gpu = field("gpu"); date = field("date"); driver = field("driver"); nvrtc = field("nvrtc")
        }
        END {
            if (row_count == 0) { print "no case of ours in this record" > "/dev/stderr"; exit 1 }
            printf "%s, driver %s, NVRTC %s, %s; ratio to R%s, in brackets TFLOP/s.\n\n", gpu, driver, nvrtc, date,
                reference == "" ? "" : sprintf(" = %.0f TFLOP/s", reference)
            printf "| case |"
            for (a = 1; a <= act_count; a++) printf " %s |", columns[a]
            printf "\n|---|"
            for (a = 1; a <= act_count; a++) printf "---|"
            printf "\n"
            for (r = 1; r <= row_count; r++) {
                printf "| `%s` |", names[r]
                for (a = 1; a <= act_count; a++) printf " %s |", cells[names[r], columns[a]]
                printf "\n"
            }
        }' "$1"
}

if [ -z "$document" ]; then
    table "$1"
    exit
fi
scratch=$(mktemp)
trap 'rm -f "$scratch" "$scratch.whole"' EXIT
table "$1" >"$scratch"
if [ "$(grep -cx '<!-- rates -->\|<!-- end of rates -->' "$document")" != 2 ]; then
    echo "gpu-table: $document lacks the lines <!-- rates --> and <!-- end of rates -->" >&2
    exit 1
fi
awk -v table="$scratch" '
    $0 == "<!-- end of rates -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- rates -->" {
        inside = 1
        while ((getline line < table) > 0) print line
    }' "$document" >"$scratch.whole"
cat "$scratch.whole" >"$document"
