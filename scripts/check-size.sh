#!/bin/sh
# Keeps functions and files short enough to read: functions up to 60 lines (kernels and device functions 150), C files
# up to 600 lines, device headers up to 300, and a comment at the head of every file. Longer ones need a line, with the
# number they may grow to, in scripts/size-allowed.txt; a line there that is not needed any more is an error too.
# shellcheck disable=SC2016 # the program is awk's
set -u
cd "$(dirname "$0")/.." || exit 1
find gen cache runtime tools templates tests examples include -name '*.[ch]' -o -name '*.cuh' -o -name '*.cpp' |
    grep -v '^tests/golden/' | LC_ALL=C sort | xargs awk '
    function report(what, length_found, limit_given,    key) {
        key = what
        if (length_found > limit_given && key in allowed) {
            needed[key] = 1
            limit_given = allowed[key]
        }
        if (length_found > limit_given) {
            printf "check-size: %s has %d lines, at most %d are allowed\n", what, length_found, limit_given
            bad = 1
        }
    }
    function file_limit(name) {
        if (name ~ /^include\//) return 700
        return name ~ /\.cuh$/ ? 300 : 600
    }
    function end_of_file() {
        if (file != "") report(file, lines, file_limit(file))
    }
    BEGIN {
        while ((getline line < "scripts/size-allowed.txt") > 0) {
            if (line ~ /^#/ || split(line, part, " ") < 2) continue
            allowed[part[1]] = part[2]
        }
    }
    FNR == 1 {
        end_of_file()
        file = FILENAME
        start = 0
        if ($0 !~ /^\/[*\/]/) {
            printf "check-size: %s does not start with a comment that says what it is for\n", file
            bad = 1
        }
    }
    { lines = FNR }
    # The layout of .clang-format: a function body is between braces that stand alone in the first column.
    /^{$/ { start = FNR; name = head; next }
    /^}$/ && start {
        report(file ":" name, FNR - start - 1, file ~ /\.cuh$/ ? 150 : 60)
        start = 0
    }
    !start && /^[A-Za-z_].*\(/ {
        head = $0
        sub(/\(.*/, "", head)
        sub(/.*[ *]/, "", head)
    }
    END {
        end_of_file()
        for (key in allowed) {
            if (!(key in needed)) {
                printf "check-size: scripts/size-allowed.txt names %s, which does not need it any more\n", key
                bad = 1
            }
        }
        if (!bad) print "check-size: clean"
        exit bad
    }'
