/*
 * gelu_tanh: as fast_gelu.
 */
#include "activation/packed_pair/fast_gelu.cuh"
