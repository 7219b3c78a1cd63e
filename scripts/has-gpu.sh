#!/bin/sh
# Exit code 0 when this machine has an NVIDIA GPU with a driver, so that tests which need one can run.
if [ ! -e /dev/nvidia0 ] && [ ! -e /dev/dxg ]; then
    exit 1
fi
(ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | grep -q 'libcuda\.so\.1'
