#!/bin/sh
for words in '--suite portabel' '--case fwd/dense/d64' '--case fwd/dense/d64/q1/k1/h1/b1/relo' '--filter nothing-like-this' \
    '--seconds -1' 'head_dim=64'; do
    # shellcheck disable=SC2086 # several words
    gdpa-jit bench $words
    echo "code $?"
done
