#!/bin/sh
gdpa-jit list
echo "code $?"
gdpa-jit list --json
gdpa-jit list head_dim=64 --quiet
