#!/bin/sh
# needs: nvrtc
# The compiler may fail, or end its process, when memory runs out anywhere: that kernel failed, nothing of it is kept, and
# with memory it is compiled. A sanitizer reserves more than any limit; there nothing is limited.
[ -n "${ASAN_OPTIONS:-}" ] && limits= || limits='60000 125000 140000 155000 170000'
for limit in $limits; do
    (
        # shellcheck disable=SC3045 # dash has it
        ulimit -v "$limit"
        gdpa-jit warm head_dim=128 activation=silu --arch sm_90a --jobs 1 >out.txt 2>err.txt
        code=$?
        [ -s err.txt ] || code="$code without a word"
        case $code in
        0 | 1 | 3 | 4) ;;
        *) echo "$limit KiB: $code" ;;
        esac
    )
done
gdpa-jit warm head_dim=128 activation=silu --arch sm_90a --jobs 1 --quiet
echo "code $?"
gdpa-jit cache verify
