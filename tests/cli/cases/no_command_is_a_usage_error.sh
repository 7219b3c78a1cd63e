#!/bin/sh
gdpa-jit >out.txt
echo "code $?, $(wc -c <out.txt) bytes on stdout"
