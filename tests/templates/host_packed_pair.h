/*
 * What test_packed_pair.c and the host build that it makes share.
 */
#ifndef GDPA_TESTS_TEMPLATES_HOST_PACKED_PAIR_H
#define GDPA_TESTS_TEMPLATES_HOST_PACKED_PAIR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a Hopper backward does with one element of S and dP, of an activation and a type. */
struct host_packed_pair {
    /* pair_constants of a call; gives the factors of dV, and of dQ and dK. The functions below use what it was called with last. */
    void (*prepare)(float scale, float out_scale, float param, float *weight_epilogue, float *slope_epilogue);
    /* packed_pair of raw scores. */
    void (*pair)(float score0, float score1, uint32_t *weights, uint32_t *slopes);
    /* packed_gradient of elements of dP. */
    uint32_t (*gradient)(uint32_t slopes, float product0, float product1);
};

#ifdef __cplusplus
}
#endif

#endif
