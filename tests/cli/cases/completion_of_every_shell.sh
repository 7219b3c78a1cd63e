#!/bin/sh
# Each command and option is in each script; the shells that are here find no fault in it.
for shell in bash zsh fish; do
    gdpa-jit completion $shell >script
    for word in $(gdpa-jit help --json | grep -o '"name":"[a-z-]*"' | cut -d '"' -f 4 | sort -u); do
        grep -q -e "$word" script || echo "$shell: $word is missing"
    done
    gdpa-jit completion $shell --json | grep -o '"shell":"[a-z]*"'
    if command -v $shell >/dev/null; then
        $shell -n script || echo "$shell finds fault"
    fi
done
