#!/bin/sh
# needs: fake
# What a word or a path holds is shown without what steers a terminal.
escape=$(printf '\033[31mx\007\177\rx')
gdpa-jit warm "$escape=64" --arch sm_80
gdpa-jit warm --file "$escape"
gdpa-jit unpack "$escape"
gdpa-jit cache remove "$escape"
gdpa-jit show ptx "$escape"
gdpa-jit list "$escape"
gdpa-jit cache "$escape"
gdpa-jit pack "$escape/x"
gdpa-jit cache stats --cache-dir /dev/null/"$escape"
