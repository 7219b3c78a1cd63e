#!/bin/sh
printf 'head_dim=32 activation=relu\nhead_dim=33 activation=relu\n' >specs.txt
gdpa-jit warm --file specs.txt --arch sm_80
echo "code $?"
gdpa-jit warm --file no-such-file --arch sm_80
echo "code $?"
