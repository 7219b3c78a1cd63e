/*
 * Value and derivative of one score together, for the backward: P = value, dS = slope dP.
 *
 * Here as the activation's file has them, where the compiler shares what both need. Where they would not share enough (two special
 * functions instead of one), activation/pair/<file>.cuh takes the place of this file.
 */
#ifndef GDPA_ACTIVATION_PAIR_CUH
#define GDPA_ACTIVATION_PAIR_CUH

#include "activation.cuh"

struct ActivationPair {
    float value;
    float slope;
};

/* x: the scaled score. */
__device__ inline ActivationPair activation_pair(float x, float param)
{
    return {activation_value(x, param), activation_derivative(x, param)};
}

#endif
