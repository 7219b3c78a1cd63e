/*
 * fast_gelu: u = sqrt(2/pi) (x + 0.044715 x^3), which is y (y^2 + kGeluTerm). 7 operations and 1 special function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_FAST_GELU_CUH

#include "activation/gelu_unit.cuh"
#include "ptx/fma_rz.cuh"

constexpr int kPairOperations = 7; // of fp32, for one score
constexpr float kReach = 1.0f / kGeluUnit;

/*
 * u and x u' / y = 3 y^2 + kGeluTerm for x = kReach y. Far out the slope multiplies x u' by a 0 that 1 - t^2 has become, so it may be any number
 * but infinity: both sums round towards zero, which keeps them finite and costs nothing.
 */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    const float sum = fma_rz_f32(y, y, kGeluTerm);
    argument = y * sum;
    rise = fma_rz_f32(3.0f, sum, -2.0f * kGeluTerm);
}

#include "activation/packed_pair/through_tanh.cuh"

#endif
