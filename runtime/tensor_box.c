/*
 * See tensor_box.h. Limits are those of cuTensorMapEncodeTiled: strides are multiples of 16 bytes below 2^40.
 */
#include "runtime/tensor_box.h"

#include <inttypes.h>

#include "runtime/error.h"

#define STRIDE_LIMIT ((uint64_t)TENSOR_BOX_STRIDE_LIMIT * ELEMENT_BYTES)
#define STRIDE_STEP 16
#define ELEMENT_BYTES 2

/* Rows, heads and sequences of a tensor, and what lies between them, in elements. By value: no launch should write them to memory. */
struct dimensions {
    int64_t rows, heads, batch;
};

/* A dimension of one element is never stepped through: its stride is free, and may have been any. */
static inline void dimension_fill(int64_t elements, int64_t step, uint64_t *extent, uint64_t *stride)
{
    *extent = elements > 0 ? (uint64_t)elements : 1;
    *stride = *extent > 1 ? (uint64_t)step * ELEMENT_BYTES : STRIDE_STEP;
}

static gdpa_status stride_too_large(const char *tensor, struct dimensions steps, const struct tensor_box *box)
{
    static const char *const names[] = {"row", "head", "batch"};
    const int64_t values[] = {steps.rows, steps.heads, steps.batch};
    int i = 0;
    while (i < 2 && box->strides[i] < STRIDE_LIMIT) {
        i++;
    }
    FAIL(GDPA_E_ARGUMENT,
         "%s.stride_%s %" PRId64 " is more than the copy engine can step (2^39 elements); set spec.unaligned", tensor,
         names[i], values[i]);
}

static inline gdpa_status box_fill(const char *tensor, const void *data, int32_t columns, struct dimensions extents,
                                   struct dimensions steps, struct tensor_box *box)
{
    box->data = data;
    box->extents[0] = (uint64_t)columns;
    dimension_fill(extents.rows, steps.rows, &box->extents[1], &box->strides[0]);
    dimension_fill(extents.heads, steps.heads, &box->extents[2], &box->strides[1]);
    dimension_fill(extents.batch, steps.batch, &box->extents[3], &box->strides[2]);
    /* The limit is a power of 2: the union of all reaches it when one of them does. */
    return (box->strides[0] | box->strides[1] | box->strides[2]) < STRIDE_LIMIT ? GDPA_OK
                                                                                : stride_too_large(tensor, steps, box);
}

gdpa_status tensor_boxes_fill(const gdpa_spec *normalised, const struct kernel_plan *plan,
                              const struct gdpa_fwd_params *params, struct tensor_box boxes[TENSOR_BOX_COUNT])
{
    const int64_t heads_k = params->heads_q / params->heads_per_group;
    const int64_t batch_q = normalised->layout_q == GDPA_LAYOUT_JAGGED ? 1 : params->batch;
    const int64_t batch_k = normalised->layout_k == GDPA_LAYOUT_JAGGED ? 1 : params->batch;
    const struct dimensions of_queries = {params->rows_q, params->heads_q, batch_q};
    const struct dimensions of_keys = {params->rows_k, heads_k, batch_k};
    const struct dimensions q_steps = {params->q_stride_row, params->q_stride_head, params->q_stride_batch};
    const struct dimensions k_steps = {params->k_stride_row, params->k_stride_head, params->k_stride_batch};
    const struct dimensions v_steps = {params->v_stride_row, params->v_stride_head, params->v_stride_batch};
    const struct dimensions o_steps = {params->o_stride_row, params->o_stride_head, params->o_stride_batch};
    /* Without keys their data may be NULL, which no tensor map takes; a box of q stands in, and is never copied. */
    const bool no_keys = params->rows_k == 0 || batch_k == 0;
    const void *data_k = no_keys ? params->q : params->k;
    const void *data_v = no_keys ? params->q : params->v;
    TRY(box_fill("q", params->q, normalised->head_dim, of_queries, q_steps, &boxes[0]));
    TRY(box_fill("k", data_k, normalised->head_dim, of_keys, k_steps, &boxes[1]));
    TRY(box_fill("v", data_v, normalised->head_dim_v, of_keys, v_steps, &boxes[2]));
    const bool stored = normalised->out_dtype != GDPA_DTYPE_FP32;
    TRY(stored ? box_fill("o", params->o, normalised->head_dim_v, of_queries, o_steps, &boxes[3])
               : box_fill("q", params->q, normalised->head_dim, of_queries, q_steps, &boxes[3]));
    for (int i = 0; i < TENSOR_BOX_COUNT; i++) {
        boxes[i].rows = (uint32_t)(i == 0 ? plan->block_m : plan->block_n);
        boxes[i].dtype = normalised->dtype;
    }
    boxes[3].rows = OUTPUT_BOX_ROWS;
    boxes[3].dtype = stored ? normalised->out_dtype : normalised->dtype;
    return GDPA_OK;
}

gdpa_status backward_boxes_fill(const gdpa_spec *normalised, const struct gdpa_bwd_params *params, int32_t queries,
                                int32_t keys, bool stores, struct tensor_box boxes[BACKWARD_BOX_COUNT])
{
    enum { DQ = BACKWARD_BOX_COUNT - 1 };
    const int64_t batch_q = normalised->layout_q == GDPA_LAYOUT_JAGGED ? 1 : params->batch;
    const int64_t batch_k = normalised->layout_k == GDPA_LAYOUT_JAGGED ? 1 : params->batch;
    const struct dimensions of_queries = {params->rows_q, params->heads_q, batch_q};
    const struct dimensions of_keys = {params->rows_k, params->heads_k, batch_k};
    const struct dimensions q_steps = {params->q_stride_row, params->q_stride_head, params->q_stride_batch};
    const struct dimensions k_steps = {params->k_stride_row, params->k_stride_head, params->k_stride_batch};
    const struct dimensions v_steps = {params->v_stride_row, params->v_stride_head, params->v_stride_batch};
    const struct dimensions dout_steps = {params->dout_stride_row, params->dout_stride_head, params->dout_stride_batch};
    /* What has no rows may be NULL, which no tensor map takes; the other side stands in, and is never copied. */
    const bool no_queries = params->rows_q == 0, no_keys = params->rows_k == 0;
    TRY(box_fill("q", no_queries ? params->k : params->q, normalised->head_dim, of_queries, q_steps, &boxes[0]));
    TRY(box_fill("k", no_keys ? params->q : params->k, normalised->head_dim, of_keys, k_steps, &boxes[1]));
    TRY(box_fill("v", no_keys ? params->q : params->v, normalised->head_dim_v, of_keys, v_steps, &boxes[2]));
    TRY(box_fill("dout", no_queries ? params->k : params->dout, normalised->head_dim_v, of_queries, dout_steps,
                 &boxes[3]));
    for (int i = 0; i < DQ; i++) {
        boxes[i].rows = (uint32_t)(i == 0 || i == 3 ? queries : keys);
        boxes[i].dtype = normalised->dtype;
    }
    boxes[DQ] = (struct tensor_box){.rows = GRADIENT_BOX_ROWS, .dtype = normalised->out_dtype};
    if (stores && params->dq != NULL) {
        const struct dimensions dq_steps = {params->dq_stride_row, params->dq_stride_head, params->dq_stride_batch};
        TRY(box_fill("dq", params->dq, normalised->head_dim, of_queries, dq_steps, &boxes[DQ]));
    }
    return GDPA_OK;
}

int backward_boxes_count(const struct tensor_box boxes[BACKWARD_BOX_COUNT])
{
    return boxes[BACKWARD_BOX_COUNT - 1].data != NULL ? BACKWARD_BOX_COUNT : BACKWARD_BOX_COUNT - 1;
}
