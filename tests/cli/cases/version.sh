#!/bin/sh
gdpa-jit --version
gdpa-jit -V
gdpa-jit --version --json
