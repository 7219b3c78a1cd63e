#!/bin/sh
gdpa-jit warm --dry-run head_dim=64 activation=relu
