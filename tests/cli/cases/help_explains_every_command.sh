#!/bin/sh
# help X and X --help are one text of at most 60 lines, with three examples.
for command in warm list show verify bench cache env doctor completion; do
    gdpa-jit help $command >one.txt || echo "help $command ended with $?"
    gdpa-jit $command --help >two.txt || echo "$command --help ended with $?"
    diff one.txt two.txt || echo "$command: the two texts differ"
    lines=$(wc -l <one.txt)
    examples=$(sed -n '/^Examples:/,/^$/p' one.txt | grep -c '^  gdpa-jit ')
    [ "$lines" -le 60 ] || echo "$command: $lines lines"
    [ "$examples" = 3 ] || echo "$command: $examples examples"
    width=$(awk '{ if (length > most) most = length } END { print most }' one.txt)
    [ "$width" -le 110 ] || echo "$command: a line of $width characters"
done
gdpa-jit help warm
