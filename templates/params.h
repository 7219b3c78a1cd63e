/*
 * The kernel arguments, shared by host C and generated CUDA: one struct, passed by value as the only parameter.
 *
 * The host fills it in runtime/launch_params.c; the generator pastes this file into the source without the include
 * guards and the host-only part. Strides are in elements. Fixed-width fields, widest first, no padding anywhere.
 */
#ifndef GDPA_TEMPLATES_PARAMS_H
#define GDPA_TEMPLATES_PARAMS_H

//@if host
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
//@endif
//@if listed
#include "schedule_format.h"
//@endif

//@if !backward
struct gdpa_fwd_params {
    const void *q;
    const void *k;
    const void *v;
    void *o;
    const int32_t *cu_seqlens_q; /* [batch + 1] or null: dense */
    const int32_t *cu_seqlens_k;
    const int32_t *seqused_q; /* [batch] or null */
    const int32_t *seqused_k;
    int64_t q_stride_batch, q_stride_row, q_stride_head;
    int64_t k_stride_batch, k_stride_row, k_stride_head;
    int64_t v_stride_batch, v_stride_row, v_stride_head;
    int64_t o_stride_batch, o_stride_row, o_stride_head;
    int64_t rows_q; /* dense: seqlen_q; jagged: total_q, the bound every offset is clamped to */
    int64_t rows_k;
    int64_t num_tiles;     /* query tiles of the whole launch; see templates/tile_schedule.cuh */
    int64_t round_shift;   /* persistent kernels: each round of the grid begins so many blocks further on */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_per_group; /* heads_q / heads_k */
    int32_t tiles_per_seq;   /* query tiles a sequence may have; 0: find the sequence by search in cu_seqlens_q */
    float scale;             /* inside the activation */
    float out_scale;         /* outside */
    float activation_param;
    int32_t full_tiles_per_seq; /* > 0: tiles of kBlockM rows, which come before the last, shorter ones of all sequences */
    //@if listed
    uint32_t *schedule; /* templates/schedule_format.h; last, so that kernels without one do not have it */
    //@endif
};

//@if host
static_assert(sizeof(struct gdpa_fwd_params) == 8 * 8 + 12 * 8 + 4 * 8 + 8 * 4 + 8, "no padding");
static_assert(offsetof(struct gdpa_fwd_params, num_tiles) == 176, "as the kernel reads it");
//@endif
//@endif
//@if backward
/*
 * Of both kernels of a backward pass. The key tiles are those of the main kernel: kBlockN keys of one (sequence, kv head). The query
 * tiles are those of the second one: kBlockM rows of one (sequence, q head).
 */
struct gdpa_bwd_params {
    const void *q;
    const void *k;
    const void *v;
    const void *dout;
    void *dq; /* null: not wanted; dk and dv likewise */
    void *dk;
    void *dv;
    float *dq_sum; /* workspace of the dQ sums; null: a block has all keys and writes dq itself, or nobody sums up dQ */
    const int32_t *cu_seqlens_q; /* [batch + 1] or null: dense */
    const int32_t *cu_seqlens_k;
    const int32_t *seqused_q; /* [batch] or null */
    const int32_t *seqused_k;
    int64_t q_stride_batch, q_stride_row, q_stride_head;
    int64_t k_stride_batch, k_stride_row, k_stride_head;
    int64_t v_stride_batch, v_stride_row, v_stride_head;
    int64_t dout_stride_batch, dout_stride_row, dout_stride_head;
    int64_t dq_stride_batch, dq_stride_row, dq_stride_head;
    int64_t dk_stride_batch, dk_stride_row, dk_stride_head;
    int64_t dv_stride_batch, dv_stride_row, dv_stride_head;
    int64_t rows_q; /* dense: seqlen_q; jagged: total_q, the bound every offset is clamped to */
    int64_t rows_k;
    int64_t num_tiles;       /* key tiles of the whole launch; see templates/gradient_tiles.cuh */
    int64_t num_query_tiles; /* of the second kernel's launch */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_k;
    int32_t heads_per_group;     /* heads_q / heads_k */
    int32_t tiles_per_seq;       /* key tiles a sequence may have; 0: find the sequence by search in cu_seqlens_k */
    int32_t query_tiles_per_seq; /* query tiles; 0: by search in cu_seqlens_q */
    float scale;                 /* inside the activation */
    float out_scale;             /* outside */
    float activation_param;
    int32_t accumulate; /* add to dq, dk and dv; fp32 gradients only */
};

//@if host
static_assert(sizeof(struct gdpa_bwd_params) == 12 * 8 + 21 * 8 + 4 * 8 + 10 * 4, "no padding");
//@endif
//@endif

/* What cuTensorMapEncodeTiled writes: opaque. (NVRTC ignores an attribute behind the brace.) */
struct __attribute__((aligned(64))) gdpa_tensor_map {
    uint64_t words[16];
};

//@if !backward
/*
 * Kernels that load and store through the copy engine. Each map has four dimensions, fastest first: columns, rows (of a sequence: dense; of the
 * tensor: jagged), heads, sequences (jagged: one).
 */
struct gdpa_fwd_sm90_params {
    struct gdpa_tensor_map q_map; /* box 64 x kBlockM */
    struct gdpa_tensor_map k_map; /* box 64 x kBlockN */
    struct gdpa_tensor_map v_map; /* box 64 x kBlockN */
    struct gdpa_tensor_map o_map; /* box 64 x 64; not used where o is fp32 */
    struct gdpa_fwd_params common; /* q, k and v and their strides are not used */
};
//@endif
//@if backward
/* The same of the backward. */
struct gdpa_bwd_sm90_params {
    struct gdpa_tensor_map q_map;    /* box 64 x kBlockM */
    struct gdpa_tensor_map k_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map v_map;    /* box 64 x kBlockN */
    struct gdpa_tensor_map dout_map; /* box 64 x kBlockM */
    struct gdpa_tensor_map dq_map;   /* box 64 x 16; only where a block or cluster has all keys, and dq is not fp32 */
    struct gdpa_bwd_params common;
};
//@endif

#endif
