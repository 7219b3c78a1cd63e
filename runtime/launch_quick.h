/*
 * Arguments -> kernel parameters and grid, the short way: for arguments that are plainly right. Everything else, bad
 * arguments included, is left to launch_params.c, which says what is wrong. tests/runtime/test_launch_quick.c holds the
 * two against each other.
 */
#ifndef GDPA_RUNTIME_LAUNCH_QUICK_H
#define GDPA_RUNTIME_LAUNCH_QUICK_H

#include "runtime/launch_params.h"

struct quick_tensor {
    int64_t dim, elements_max; /* elements_max: 2^63 bytes */
    uintptr_t address_mask;    /* bits of an address that must be 0 */
    int64_t stride_mask;       /* bits of a stride that must be 0 */
    int32_t dtype;
};

/* What a kernel fixes of every launch of it; made once. */
struct launch_quick {
    bool usable;                                   /* false: always the long way */
    bool jagged_q, jagged_k, causal, boxed, pairs; /* pairs: warps take them, whatever the lengths are */
    int64_t stride_limit;
    struct quick_tensor q, k, v, o;
    uint32_t block_m, threads, smem;
    float activation_param;
};

void launch_quick_make(const gdpa_spec *normalised, const struct kernel_plan *plan, struct launch_quick *quick);

/*
 * True: *shape is what launch_shape_fill makes of it, but for the boxes, which are not filled. False: ask launch_shape_fill
 * (*shape is then undefined, and no error is set).
 */
bool launch_quick_fill(const struct launch_quick *quick, const gdpa_args *args, struct launch_shape *shape);

#endif
