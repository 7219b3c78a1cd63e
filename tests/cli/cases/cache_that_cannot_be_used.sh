#!/bin/sh
# Status 4 from whatever needs the cache.
export GDPAJIT_MODE=off
try() {
    gdpa-jit "$@"
    echo "$*: code $?"
}
try cache stats
try cache path
try cache verify
try cache clear
try cache remove x
try list
try show source 00
