/*
 * fast_gelu, and gelu_tanh too: u = sqrt(2/pi) (x + 0.044715 x^3). 9 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH

#include "activation/gelu_argument.cuh"
#include "ptx/math.cuh"

constexpr int kPairOperations = 9; // of fp32, for one score
constexpr float kReach = 6.0f;     // t is 1 there
constexpr float kLinear = kGeluK0 * kReach;
constexpr float kCubic = kGeluK1 * kReach * kReach * kReach;

/* u and x u' for x = kReach y. Beyond 1 both go on as straight lines: a cube would overflow, and infinity times 0 is not 0. */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    const float square = fma_rn_sat_f32(y, y, 0.0f);
    argument = y * fma_rn_f32(kCubic, square, kLinear);
    rise = y * fma_rn_f32(3.0f * kCubic, square, kLinear);
}

#include "activation/packed_pair/through_tanh.cuh"

#endif
