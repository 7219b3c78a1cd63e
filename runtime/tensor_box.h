/*
 * What the copy engine (TMA) is told of q, k, v, o and dout: extents, strides and the box it copies at a time. No driver in here.
 */
#ifndef GDPA_RUNTIME_TENSOR_BOX_H
#define GDPA_RUNTIME_TENSOR_BOX_H

#include "gen/plan.h"
#include "templates/params.h"

/* Strides of tensors of 16-bit elements are below it, in elements: 2^40 bytes. */
#define TENSOR_BOX_STRIDE_LIMIT (INT64_C(1) << 39)

enum { TENSOR_BOX_RANK = 4, TENSOR_BOX_COLUMNS = 64, TENSOR_BOX_COUNT = 4, BACKWARD_BOX_COUNT = 5 };
enum { OUTPUT_BOX_ROWS = 64, GRADIENT_BOX_ROWS = 16 }; /* those of a consumer warpgroup; of a warp */

/* Dimensions, fastest first: columns, rows, heads, sequences. The box is TENSOR_BOX_COLUMNS x rows x 1 x 1. */
struct tensor_box {
    const void *data;
    uint64_t extents[TENSOR_BOX_RANK];
    uint64_t strides[TENSOR_BOX_RANK - 1]; /* bytes, of all dimensions but the first */
    uint32_t rows;                         /* of a box */
    int32_t dtype;                         /* gdpa_dtype */
};

/* The boxes of q, k, v and o, in this order; of fp32 the copy engine stores none, and q stands in for it. Sets the last error. */
gdpa_status tensor_boxes_fill(const gdpa_spec *normalised, const struct kernel_plan *plan,
                              const struct gdpa_fwd_params *params, struct tensor_box boxes[TENSOR_BOX_COUNT]);

/*
 * The boxes of q, k, v and dout, with so many rows of queries and of keys, and that of dq where the copy engine stores it and it is wanted;
 * else its data is NULL.
 */
gdpa_status backward_boxes_fill(const gdpa_spec *normalised, const struct gdpa_bwd_params *params, int32_t queries,
                                int32_t keys, bool stores, struct tensor_box boxes[BACKWARD_BOX_COUNT]);

/* How many maps that makes. */
int backward_boxes_count(const struct tensor_box boxes[BACKWARD_BOX_COUNT]);

#endif
