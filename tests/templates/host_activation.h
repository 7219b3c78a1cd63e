/*
 * What test_activation.c and the host build that it makes share.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_ACTIVATION_H
#define GDPA_TESTS_TEMPLATES_HOST_ACTIVATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors of the approximate instructions, in parts of what the PTX manual allows: from -1 to 1, and more to see that it shows. */
struct host_approximation {
    double ex2, lg2, rcp, tanh;
    double
        hopper_tanh; /* in place of tanh where that is 0: in parts of what was measured on a Hopper, see host_activation.hpp */
};

/* The functions of an activation. */
struct host_activation {
    float (*value)(float x, float param);
    float (*derivative)(float x, float param);
    /* activation_pack as a kernel calls it, with activation_constants(scale, out_scale, param), whose epilogue goes to *epilogue. */
    uint32_t (*pack)(float score0, float score1, float scale, float out_scale, float param, float *epilogue);
    /* Of a backward kernel: activation_pair. */
    float (*pair_value)(float x, float param);
    float (*pair_slope)(float x, float param);
};

#ifdef __cplusplus
}
#endif

#endif
