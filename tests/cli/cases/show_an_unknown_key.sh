#!/bin/sh
for view in source resources; do
    gdpa-jit show $view 00ff
    echo "code $?"
done
