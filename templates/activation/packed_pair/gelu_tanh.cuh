/*
 * gelu_tanh: as fast_gelu, but for a bound of y^2. An exact f' asks more of 1 - t^2 where it is small and x u' large than what is known of the tanh. 8
 * operations, one of them a comparison, and 1 special function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_GELU_TANH_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_GELU_TANH_CUH

#include "activation/gelu_unit.cuh"
#include "ptx/math.cuh"

constexpr int kPairOperations = 8; // of fp32, for one score
constexpr float kReach = 1.0f / kGeluUnit;

/* y^2 + kGeluTerm for x = 6, where t has come to 1 or -1. */
constexpr float kLargestSum = 6.0f * kGeluUnit * 6.0f * kGeluUnit + kGeluTerm;

/* u and x u' / y = 3 y^2 + kGeluTerm for x = kReach y. */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    const float sum = min_nan_f32(fma_rn_f32(y, y, kGeluTerm), kLargestSum);
    argument = y * sum;
    rise = fma_rn_f32(3.0f, sum, -2.0f * kGeluTerm);
}

#include "activation/packed_pair/through_tanh.cuh"

#endif
