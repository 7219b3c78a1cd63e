/*
 * gelu: Phi(x) as 1/2 (1 + tanh(u)), u of degree 5. u' (1 - t^2) would not be close enough to the density; a polynomial of its own in the place of u'
 * is. Both were fitted together, weighted with the bounds of activations.def less what the tanh is off: 0.86 of that is used. 10 operations and 1
 * special function.
 */
#ifndef GDPA_ACTIVATION_PACKED_PAIR_GELU_CUH
#define GDPA_ACTIVATION_PACKED_PAIR_GELU_CUH

#include "ptx/math.cuh"

constexpr int kPairOperations = 10; // of fp32, for one score
constexpr float kReach = 6.0f;      // t is 1 there
__device__ constexpr float kArgument[] = {4.780135631561279f, 8.102730751037598f, -3.051765203475952f};
__device__ constexpr float kRise[] = {4.783950328826904f, 24.000648498535156f, -13.194168090820312f};

/* u and what stands for x u' / y, for x = kReach y. Beyond 1 u goes on as a straight line, the other one stays. */
__device__ inline void find_argument(float y, float &argument, float &rise)
{
    const float square = fma_rn_sat_f32(y, y, 0.0f);
    argument = y * fma_rn_f32(fma_rn_f32(kArgument[2], square, kArgument[1]), square, kArgument[0]);
    rise = fma_rn_f32(fma_rn_f32(kRise[2], square, kRise[1]), square, kRise[0]);
}

#include "activation/packed_pair/through_tanh.cuh"

#endif
