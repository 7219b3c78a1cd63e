/*
 * silu: as fast_silu.
 */
#include "activation/packed_pair/fast_silu.cuh"
