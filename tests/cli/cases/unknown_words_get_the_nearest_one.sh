#!/bin/sh
# Each of these is a usage error: status 2, nothing on stdout, the nearest legal word on stderr.
try() {
    gdpa-jit "$@" >out.txt
    code=$?
    [ "$code" = 2 ] || echo "'$*' ended with $code"
    [ ! -s out.txt ] || echo "'$*' wrote to stdout"
}
try wram
try hepl
try xyzzy
try --json warm
try help wram
try warm --job 3 head_dim=64
try warm --progress neverr head_dim=64
try warm --jobs none head_dim=64
try warm --jobs
try warm --preset defaultt
try warm --matrix defaultt
try warm --arch sm_99 head_dim=64 activation=relu
try warm head_dim=64 activation=rleu --arch sm_80
try warm hed_dim=64 activation=relu --arch sm_80
try warm head_dim=100 activation=relu --arch sm_80
try warm
try list hed_dim=64
try list head_dim=abc
try list --sort compile_sm
try list --columns key,spce
try list activation=rellu
try show
try show sauce head_dim=64
try show source
try show source head_dim=64 activation=relu arch=sm_08
try show source head_dim=64 activation=relu --arch sm_80,sm_90a
try show ptx 0123abcd --arch sm_80
try cache
try cache stat
try cache remove
try cache stats now
try env now
try doctor now
try completion
try completion bsh
try completion bash zsh
