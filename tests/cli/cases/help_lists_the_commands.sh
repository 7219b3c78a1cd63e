#!/bin/sh
# The whole help text, and the same by every way to it.
gdpa-jit help
gdpa-jit help >help.txt
gdpa-jit --help | diff help.txt - && echo "--help is the same"
gdpa-jit -h | diff help.txt - && echo "-h is the same"
gdpa-jit help help | diff help.txt - && echo "help help is the same"
