/*
 * Where the tensors of one (sequence, head) lie.
 */
#ifndef GDPA_OPERANDS_CUH
#define GDPA_OPERANDS_CUH

#include "params.h"
#include "sequence.cuh"

/* One (sequence, head) as a block sees it. */
struct Operands {
    const uint16_t *q; // row 0 of the sequence, this head
    const uint16_t *k;
    const uint16_t *v;
    int64_t o_offset; // elements, of row 0
    int32_t length_q;
    int32_t length_k;
};

__device__ inline Operands find_operands(const gdpa_fwd_params &params, int32_t batch, int32_t head)
{
    const Sequence q = find_sequence(params.cu_seqlens_q, params.seqused_q, params.rows_q, batch);
    const Sequence k = find_sequence(params.cu_seqlens_k, params.seqused_k, params.rows_k, batch);
    const int32_t head_k = head / params.heads_per_group;
    Operands operands;
    operands.q = static_cast<const uint16_t *>(params.q) + batch * params.q_stride_batch +
                 q.first_row * params.q_stride_row + head * params.q_stride_head;
    operands.k = static_cast<const uint16_t *>(params.k) + batch * params.k_stride_batch +
                 k.first_row * params.k_stride_row + head_k * params.k_stride_head;
    operands.v = static_cast<const uint16_t *>(params.v) + batch * params.v_stride_batch +
                 k.first_row * params.v_stride_row + head_k * params.v_stride_head;
    operands.o_offset = batch * params.o_stride_batch + q.first_row * params.o_stride_row + head * params.o_stride_head;
    operands.length_q = q.length;
    operands.length_k = k.length;
    return operands;
}

#endif
