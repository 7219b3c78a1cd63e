#!/bin/sh
# The script is run by bash: what it offers after each line.
if ! command -v bash >/dev/null; then
    bash() { cat >/dev/null; }
fi
gdpa-jit completion bash >completion.bash
cat >try.bash <<'END'
source ./completion.bash
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
try() {
    COMP_LINE=$1 COMP_POINT=${#1}
    COMPREPLY=()
    _gdpa_jit
    printf '%s ->' "$1"
    printf ' %s' "${COMPREPLY[@]:0:14}"
    printf '\n'
}
touch specs.txt
mkdir folder
try 'gdpa-jit '
try 'gdpa-jit wa'
try 'gdpa-jit help ca'
try 'gdpa-jit warm --p'
try 'gdpa-jit warm --progress '
try 'gdpa-jit warm --preset g'
try 'gdpa-jit warm --file spe'
try 'gdpa-jit warm -f spe'
try 'gdpa-jit warm --cache-dir fol'
try 'gdpa-jit warm head'
try 'gdpa-jit warm fwd activation=s'
try 'gdpa-jit warm layout_q='
try 'gdpa-jit show '
try 'gdpa-jit show s'
try 'gdpa-jit cache re'
try 'gdpa-jit completion '
END
bash try.bash
