/*
 * How most activations run in a kernel: the raw score is scaled, the function applied, two results packed.
 *
 * An activation file defines activation_value and activation_derivative and includes this file, or defines
 * ActivationConstants, activation_constants, activation_turn and activation_pack by itself to fold constants or to work on packed
 * numbers. Kernels call only those: P = pack(...), and O is multiplied once by `epilogue` at the end.
 */
#ifndef GDPA_ACTIVATION_SCALED_CUH
#define GDPA_ACTIVATION_SCALED_CUH

#include "numeric.cuh"

struct ActivationConstants {
    float scale;    // of the raw score
    float param;    // activation_param
    float epilogue; // of the output
};

__device__ inline ActivationConstants activation_constants(float scale, float out_scale, float param)
{
    return {scale, param, out_scale};
}

/* What the scores are to be multiplied by before activation_pack: 1, or -1. */
__device__ inline float activation_turn(const ActivationConstants &constants)
{
    return 1.0f;
}

/* Two raw scores -> two packed elements of P, `score0` in the lower half. */
__device__ inline uint32_t activation_pack(float score0, float score1, const ActivationConstants &constants)
{
    const float low = activation_value(score0 * constants.scale, constants.param);
    const float high = activation_value(score1 * constants.scale, constants.param);
    return pack_input(low, high);
}

#endif
