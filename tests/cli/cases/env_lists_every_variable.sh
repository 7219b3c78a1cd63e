#!/bin/sh
GDPAJIT_CACHE_LIMIT=64M GDPAJIT_LOG=error gdpa-jit env | sed -E '/^GDPAJIT_NVRTC/d; s/ +/ /g'
GDPAJIT_CACHE_LIMIT=64M gdpa-jit env --json | grep -o '"name":"GDPAJIT_CACHE_LIMIT"[^}]*'
