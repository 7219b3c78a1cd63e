#!/bin/sh
# needs: fake
cat >specs.txt <<END
# Two kernels of three lines.
fwd head_dim=32 activation=relu
fwd head_dim=32 activation=relu    # once more

d=32 act=identity
END
gdpa-jit warm --file specs.txt --arch sm_80 --dry-run
gdpa-jit warm --file specs.txt --arch sm_80 --dry-run >plan.txt
gdpa-jit warm --file plan.txt --quiet
gdpa-jit warm --file - --dry-run <plan.txt
echo 'head_dim=24 activation=relu' | gdpa-jit warm -nf - --arch sm_80
