#!/bin/sh
gdpa-jit show source head_dim=64 activation=relu
