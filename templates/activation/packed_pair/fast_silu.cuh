/*
 * fast_silu, and silu too: u = x/2. 4 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_FAST_SILU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_FAST_SILU_CUH

constexpr int kPairOperations = 4; // of fp32, for one score
constexpr float kReach = 2.0f;

/* u and x u' / y for x = kReach y. */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    argument = y;
    rise = 1.0f;
}

#include "activation/packed_pair/through_tanh.cuh"

#endif
