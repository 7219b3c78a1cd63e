/*
 * The short way of a launch; see launch_quick.h. On every launch: no calls, no loops, no tables, no 64-bit division.
 *
 * Each test here is the same as, or stricter than, the one of launch_params.c that has its message.
 */
#include "runtime/launch_quick.h"

#include <string.h>

#define ROWS_LIMIT INT64_C(2147418112)
#define BATCH_LIMIT INT64_C(2147483646)
#define HEADS_LIMIT INT64_C(2147483647)
#define GRID_LIMIT INT64_C(2147483647)
#define FAST_ALIGNMENT 16

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0)) {                                                                       \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

static struct quick_tensor tensor_make(int32_t dim, int32_t dtype, bool unaligned)
{
    const struct dtype_row *row = dtype_find(dtype);
    const int32_t bytes = row == NULL ? 2 : row->bytes;
    return (struct quick_tensor){.dim = dim,
                                 .elements_max = INT64_MAX / bytes,
                                 .address_mask = (uintptr_t)(unaligned ? bytes : FAST_ALIGNMENT) - 1,
                                 .stride_mask = unaligned ? 0 : FAST_ALIGNMENT / bytes - 1,
                                 .dtype = dtype};
}

void launch_quick_make(const gdpa_spec *normalised, const struct kernel_plan *plan, struct launch_quick *quick)
{
    const struct activation_row *activation = activation_find(normalised->activation);
    const bool unaligned = normalised->unaligned != 0;
    memset(quick, 0, sizeof *quick);
    quick->usable =
        normalised->pass == GDPA_PASS_FORWARD && activation != NULL && plan->block_m > 0 && !spec_is_listed(normalised);
    quick->jagged_q = normalised->layout_q == GDPA_LAYOUT_JAGGED;
    quick->jagged_k = normalised->layout_k == GDPA_LAYOUT_JAGGED;
    quick->causal = normalised->causal != 0;
    quick->boxed = plan_is_hopper(plan);
    quick->pairs = plan->family == KERNEL_FAMILY_SHORT;
    quick->stride_limit = quick->boxed ? TENSOR_BOX_STRIDE_LIMIT : INT64_MAX;
    quick->q = tensor_make(normalised->head_dim, normalised->dtype, unaligned);
    quick->k = quick->q;
    quick->v = tensor_make(normalised->head_dim_v, normalised->dtype, unaligned);
    quick->o = tensor_make(normalised->head_dim_v, normalised->out_dtype, unaligned);
    quick->block_m = (uint32_t)plan->block_m;
    quick->threads = (uint32_t)plan->threads;
    quick->smem = (uint32_t)plan->smem_bytes;
    quick->activation_param = activation == NULL ? 0.0f : (float)activation->param_default;
}

struct extents {
    int64_t batch, rows, heads;
};

struct quick_strides {
    int64_t batch, row, head;
};

static inline bool finite(float value)
{
    return value - value == 0.0f;
}

static inline bool packed_strides(const struct quick_tensor *fixed, const struct extents *extents,
                                  struct quick_strides *strides)
{
    int64_t row, batch, all;
    MUST(!__builtin_mul_overflow(extents->heads, fixed->dim, &row));
    MUST(!__builtin_mul_overflow(extents->rows, row, &batch));
    MUST(!__builtin_mul_overflow(extents->batch, batch, &all) && all <= fixed->elements_max);
    strides->head = extents->heads > 1 ? fixed->dim : 0;
    strides->row = extents->rows > 1 ? row : 0;
    strides->batch = extents->batch > 1 ? batch : 0;
    return true;
}

/* Whether all steps of an output go over what lies below them; only for heads in rows in batches, or rows in heads. */
static inline bool steps_apart(int64_t dim, int64_t inner, int64_t inner_extent, int64_t outer, int64_t outer_extent,
                               const struct extents *extents, int64_t batch)
{
    int64_t covered = dim;
    MUST(inner_extent <= 1 || inner >= covered);
    covered += (inner_extent - 1) * inner;
    MUST(outer_extent <= 1 || outer >= covered);
    covered += (outer_extent - 1) * outer;
    return extents->batch <= 1 || batch >= covered;
}

static inline bool given_strides(const gdpa_tensor *tensor, const struct quick_tensor *fixed,
                                 const struct extents *extents, bool output, struct quick_strides *strides)
{
    int64_t part, reach = fixed->dim;
    MUST(tensor->stride_dim == 1 && (tensor->stride_batch | tensor->stride_row | tensor->stride_head) >= 0);
    strides->head = extents->heads > 1 ? tensor->stride_head : 0;
    strides->row = extents->rows > 1 ? tensor->stride_row : 0;
    strides->batch = extents->batch > 1 ? tensor->stride_batch : 0;
    MUST(((strides->head | strides->row | strides->batch) & fixed->stride_mask) == 0);
    MUST(!__builtin_mul_overflow(extents->heads - 1, strides->head, &part) &&
         !__builtin_add_overflow(reach, part, &reach));
    MUST(!__builtin_mul_overflow(extents->rows - 1, strides->row, &part) &&
         !__builtin_add_overflow(reach, part, &reach));
    MUST(!__builtin_mul_overflow(extents->batch - 1, strides->batch, &part) &&
         !__builtin_add_overflow(reach, part, &reach));
    MUST(reach <= fixed->elements_max);
    if (!output) {
        return true;
    }
    return strides->head <= strides->row ? steps_apart(fixed->dim, strides->head, extents->heads, strides->row,
                                                       extents->rows, extents, strides->batch)
                                         : steps_apart(fixed->dim, strides->row, extents->rows, strides->head,
                                                       extents->heads, extents, strides->batch);
}

static inline bool tensor_fill(const gdpa_tensor *tensor, const struct quick_tensor *fixed,
                               const struct extents *extents, bool output, struct quick_strides *strides)
{
    MUST((tensor->flags & ~GDPA_TENSOR_STRIDES) == 0 && tensor->data != NULL);
    MUST(tensor->dtype == GDPA_DTYPE_DEFAULT || tensor->dtype == fixed->dtype);
    MUST(((uintptr_t)tensor->data & fixed->address_mask) == 0);
    if ((tensor->flags & GDPA_TENSOR_STRIDES) != 0) {
        return given_strides(tensor, fixed, extents, output, strides);
    }
    MUST((tensor->stride_batch | tensor->stride_row | tensor->stride_head) == 0);
    return packed_strides(fixed, extents, strides);
}

/* One side, q or k: exactly the fields of its layout are set, and there are rows. */
static inline bool side_is_plain(bool jagged, int64_t seqlen, int64_t total, int64_t max_seqlen,
                                 const int32_t *cu_seqlens, const int32_t *seqused)
{
    MUST((((uintptr_t)cu_seqlens | (uintptr_t)seqused) & (sizeof(int32_t) - 1)) == 0);
    if (jagged) {
        return seqlen == 0 && total >= 1 && total <= ROWS_LIMIT && max_seqlen >= 0 && cu_seqlens != NULL;
    }
    return total == 0 && max_seqlen == 0 && cu_seqlens == NULL && seqlen >= 1 && seqlen <= ROWS_LIMIT;
}

static inline bool sizes_are_plain(const struct launch_quick *quick, const gdpa_args *args)
{
    const uint32_t known = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM;
    MUST(quick->usable && args != NULL && args->size == sizeof *args && (args->flags & ~known) == 0);
    MUST(args->sm_margin == 0);
    MUST(args->batch >= 1 && args->batch <= BATCH_LIMIT);
    MUST(args->heads_q >= 1 && args->heads_q <= HEADS_LIMIT && args->heads_k >= 1 && args->heads_k <= HEADS_LIMIT);
    MUST(side_is_plain(quick->jagged_q, args->seqlen_q, args->total_q, args->max_seqlen_q, args->cu_seqlens_q,
                       args->seqused_q));
    return side_is_plain(quick->jagged_k, args->seqlen_k, args->total_k, args->max_seqlen_k, args->cu_seqlens_k,
                         args->seqused_k);
}

static inline bool scalars_fill(const struct launch_quick *quick, const gdpa_args *args, struct gdpa_fwd_params *params)
{
    MUST((args->flags & GDPA_ARGS_SCALE) != 0 || args->scale == 0.0f);
    MUST((args->flags & GDPA_ARGS_OUT_SCALE) != 0 || args->out_scale == 0.0f);
    MUST((args->flags & GDPA_ARGS_ACTIVATION_PARAM) != 0 || args->activation_param == 0.0f);
    params->scale = (args->flags & GDPA_ARGS_SCALE) != 0 ? args->scale : 1.0f;
    params->out_scale = (args->flags & GDPA_ARGS_OUT_SCALE) != 0 ? args->out_scale : 1.0f;
    params->activation_param =
        (args->flags & GDPA_ARGS_ACTIVATION_PARAM) != 0 ? args->activation_param : quick->activation_param;
    return finite(params->scale) && finite(params->out_scale) && finite(params->activation_param);
}

static inline bool tensors_fill(const struct launch_quick *quick, const gdpa_args *args, struct gdpa_fwd_params *params)
{
    const struct extents query = {quick->jagged_q ? 1 : args->batch, quick->jagged_q ? args->total_q : args->seqlen_q,
                                  args->heads_q};
    const struct extents key = {quick->jagged_k ? 1 : args->batch, quick->jagged_k ? args->total_k : args->seqlen_k,
                                args->heads_k};
    struct quick_strides q, k, v, o;
    MUST(tensor_fill(&args->q, &quick->q, &query, false, &q));
    MUST(tensor_fill(&args->k, &quick->k, &key, false, &k));
    MUST(tensor_fill(&args->v, &quick->v, &key, false, &v));
    MUST(tensor_fill(&args->o, &quick->o, &query, true, &o));
    /* Of non-negative numbers the union is below a power of 2 when each of them is. */
    MUST(((q.batch | q.row | q.head | k.batch | k.row | k.head) |
          (v.batch | v.row | v.head | o.batch | o.row | o.head)) < quick->stride_limit);
    params->q = args->q.data, params->k = args->k.data, params->v = args->v.data, params->o = args->o.data;
    params->q_stride_batch = q.batch, params->q_stride_row = q.row, params->q_stride_head = q.head;
    params->k_stride_batch = k.batch, params->k_stride_row = k.row, params->k_stride_head = k.head;
    params->v_stride_batch = v.batch, params->v_stride_row = v.row, params->v_stride_head = v.head;
    params->o_stride_batch = o.batch, params->o_stride_row = o.row, params->o_stride_head = o.head;
    params->rows_q = query.rows;
    params->rows_k = key.rows;
    return true;
}

/* As tiles_count of launch_params.c; the numbers are below 2^31, and so are the divisions. */
static inline bool tiles_fill(const struct launch_quick *quick, const gdpa_args *args, struct gdpa_fwd_params *params)
{
    const uint32_t block_m = quick->block_m;
    int64_t per_head;
    params->full_tiles_per_seq = 0;
    if (quick->pairs) {
        params->tiles_per_seq = 0;
        per_head = args->batch;
    } else if (quick->jagged_q) {
        const uint32_t longest = (uint32_t)(args->max_seqlen_q < args->total_q ? args->max_seqlen_q : args->total_q);
        const uint32_t per_sequence = longest / block_m + (longest % block_m != 0);
        const int64_t virtual_tiles = (uint32_t)args->total_q / block_m + args->batch;
        const int64_t direct_tiles = args->batch * per_sequence;
        const bool direct = per_sequence > 0 && direct_tiles <= virtual_tiles;
        params->tiles_per_seq = direct ? (int32_t)per_sequence : 0;
        per_head = direct ? direct_tiles : virtual_tiles;
    } else {
        const uint32_t rows = (uint32_t)args->seqlen_q;
        const bool cut = rows % block_m != 0;
        const uint32_t per_sequence = rows / block_m + cut;
        params->tiles_per_seq = (int32_t)per_sequence;
        params->full_tiles_per_seq = cut && !quick->causal && !quick->boxed ? (int32_t)per_sequence - 1 : 0;
        per_head = args->batch * per_sequence;
    }
    params->round_shift = 0;
    return !__builtin_mul_overflow(per_head, args->heads_q, &params->num_tiles) && params->num_tiles <= GRID_LIMIT;
}

bool launch_quick_fill(const struct launch_quick *quick, const gdpa_args *args, struct launch_shape *shape)
{
    struct gdpa_fwd_params *params = &shape->params;
    MUST(sizes_are_plain(quick, args));
    MUST(scalars_fill(quick, args, params));
    MUST(tensors_fill(quick, args, params));
    MUST(tiles_fill(quick, args, params));
    const uint32_t heads_q = (uint32_t)args->heads_q, heads_k = (uint32_t)args->heads_k;
    const uint32_t per_group = heads_q == heads_k ? 1 : heads_q / heads_k;
    MUST(per_group * (uint64_t)heads_k == heads_q);
    params->batch = (int32_t)args->batch;
    params->heads_q = (int32_t)heads_q;
    params->heads_per_group = (int32_t)per_group;
    params->cu_seqlens_q = args->cu_seqlens_q;
    params->cu_seqlens_k = args->cu_seqlens_k;
    params->seqused_q = args->seqused_q;
    params->seqused_k = args->seqused_k;
    shape->grid = (uint32_t)params->num_tiles;
    shape->grid_y = 1;
    shape->block = quick->threads;
    shape->smem = quick->smem;
    shape->persistent = quick->boxed;
    shape->boxed = quick->boxed;
    shape->sm_margin = 0;
    shape->schedule = shape->schedule_given = 0;
    params->schedule = NULL;
    return true;
}
