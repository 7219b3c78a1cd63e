/*
 * Arguments -> kernel parameters and grid of a forward; see launch_params.h. Pure arithmetic, on every launch: no allocation. The
 * numbering of the query tiles is the one that templates/tile_schedule.cuh takes apart again.
 */
#include "runtime/launch_params.h"
#include "runtime/error.h"
#include "runtime/launch_checks.h"

#include <inttypes.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------
 * Tiles
 * ------------------------------------------------------------------------------------------------------------- */

/*
 * Direct mapping: every sequence has tiles_per_seq query tiles, enough for the longest. Search mapping (jagged queries
 * of unknown or very uneven lengths): sequence b owns the virtual tiles from cu_seqlens[b] / block_m + b on, at least as
 * many as it needs, and all sequences of a head together total_q / block_m + batch; a block finds its sequence by search.
 */
static gdpa_status tiles_count(const gdpa_spec *spec, const struct kernel_plan *plan, const gdpa_args *args,
                               struct gdpa_fwd_params *params)
{
    int64_t per_head;
    const bool listed = spec_is_listed(spec); /* the schedule knows all tiles; here is how many there are at most */
    if (plan->family == KERNEL_FAMILY_SHORT) {
        per_head = args->batch;
    } else if (spec->layout_q == GDPA_LAYOUT_JAGGED) {
        const int64_t longest = args->max_seqlen_q < args->total_q ? args->max_seqlen_q : args->total_q;
        const int64_t per_sequence = divide_up(longest, plan->block_m);
        const int64_t virtual_tiles = args->total_q / plan->block_m + args->batch;
        int64_t direct_tiles; /* below 2^31 * 2^31 */
        const bool fits = !__builtin_mul_overflow(args->batch, per_sequence, &direct_tiles);
        const bool direct = per_sequence > 0 && fits && direct_tiles <= virtual_tiles && !listed;
        params->tiles_per_seq = direct ? (int32_t)per_sequence : 0;
        per_head = direct ? direct_tiles : virtual_tiles;
    } else {
        const int64_t per_sequence = divide_up(args->seqlen_q, plan->block_m);
        params->tiles_per_seq = (int32_t)per_sequence;
        /* Under a causal mask the last rows are the longest, and come first anyway. Persistent blocks shift their rounds instead. */
        const bool cut = args->seqlen_q % plan->block_m != 0 && spec->causal == 0 && plan->family != KERNEL_FAMILY_SM90;
        params->full_tiles_per_seq = cut ? (int32_t)per_sequence - 1 : 0;
        FAIL_IF(__builtin_mul_overflow(args->batch, per_sequence, &per_head), GDPA_E_INTERNAL,
                "the tiles of batch %" PRId64 " and seqlen_q %" PRId64 " were not bounded", args->batch,
                args->seqlen_q);
    }
    FAIL_IF(__builtin_mul_overflow(per_head, args->heads_q, &params->num_tiles), GDPA_E_ARGUMENT,
            "batch %" PRId64 " and heads_q %" PRId64 " make more than 2^63 query tiles of %d rows", args->batch,
            args->heads_q, plan->block_m);
    FAIL_IF(
        listed && params->num_tiles > SCHEDULE_LIMIT, GDPA_E_ARGUMENT,
        "batch %" PRId64 " and heads_q %" PRId64 " make up to %" PRId64
        " query tiles of %d rows; schedule zigzag and dynamic count to 2^30: leave schedule auto, or split the batch",
        args->batch, args->heads_q, params->num_tiles, plan->block_m);
    return GDPA_OK;
}

/* Of kernels whose warps take (sequence, head) pairs: from here on a warp may have several, so that the SMs even out. */
enum { PAIRS_A_WARP = 4 };

/* Enough blocks for all SMs; where that is many pairs a warp, more of them: those that wait even out what sequences cost. */
static void short_shape_fit(struct launch_shape *shape, const struct kernel_plan *plan, uint32_t multiprocessors)
{
    const int64_t most = divide_up(shape->params.num_tiles, plan->warps);
    const int64_t resident = (int64_t)multiprocessors * plan->min_blocks;
    int64_t blocks = divide_up(most, PAIRS_A_WARP);
    blocks = blocks > resident ? blocks : resident;
    blocks = blocks < most ? blocks : most;
    shape->grid = (uint32_t)(blocks < GRID_LIMIT ? blocks : GRID_LIMIT);
    shape->grid_y = 1;
}

static uint32_t greatest_common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * How many blocks further on each round of the grid begins, so that a block meets all tiles of a sequence in turn: the last ones are short, and
 * with 6 tiles a sequence and 132 blocks it were always the same blocks that got them. Tiles of a sequence stay together, for its keys and
 * values are in L2 then. Where sequences are found by search, heads run fastest, and neighbours are alike.
 */
static uint32_t round_shift(uint32_t grid, int32_t tiles_per_seq)
{
    const uint32_t tiles = (uint32_t)tiles_per_seq;
    uint32_t shift = tiles_per_seq > 0 ? 0 : 1;
    while (tiles > 1 && shift + 1 < grid && greatest_common_divisor(grid + shift, tiles) != 1) {
        shift++;
    }
    return shift;
}

void launch_shape_fit(struct launch_shape *shape, const struct kernel_plan *plan, uint32_t multiprocessors)
{
    struct gdpa_fwd_params *params = &shape->params;
    if (plan->family == KERNEL_FAMILY_SHORT) {
        short_shape_fit(shape, plan, multiprocessors);
        return;
    }
    multiprocessors = without_margin(multiprocessors, shape->sm_margin);
    if (!shape->persistent || (shape->grid_y <= 1 && shape->grid <= multiprocessors)) {
        return;
    }
    shape->grid = multiprocessors;
    shape->grid_y = 1;
    params->round_shift = round_shift(multiprocessors, params->tiles_per_seq);
}

static gdpa_status arguments_fill(const gdpa_spec *spec, const gdpa_args *args, struct gdpa_fwd_params *params)
{
    struct scalars scalars;
    TRY(scalars_fill(spec, args, &scalars));
    params->scale = scalars.scale;
    params->out_scale = scalars.out_scale;
    params->activation_param = scalars.activation_param;
    params->batch = (int32_t)args->batch;
    params->heads_q = (int32_t)args->heads_q;
    params->heads_per_group = (int32_t)(args->heads_q / args->heads_k);
    params->cu_seqlens_q = args->cu_seqlens_q;
    params->cu_seqlens_k = args->cu_seqlens_k;
    params->seqused_q = args->seqused_q;
    params->seqused_k = args->seqused_k;
    return GDPA_OK;
}

static gdpa_status tensors_fill(const gdpa_spec *spec, const struct views *views, bool empty,
                                struct gdpa_fwd_params *params)
{
    struct strides q = {0}, k = {0}, v = {0}, o = {0};
    const bool unaligned = spec->unaligned != 0;
    TRY(tensor_check(&views->q, unaligned, empty, &q));
    TRY(tensor_check(&views->k, unaligned, empty, &k));
    TRY(tensor_check(&views->v, unaligned, empty, &v));
    TRY(tensor_check(&views->o, unaligned, empty, &o));
    params->q = views->q.tensor->data;
    params->k = views->k.tensor->data;
    params->v = views->v.tensor->data;
    params->o = views->o.tensor->data;
    params->q_stride_batch = q.batch, params->q_stride_row = q.row, params->q_stride_head = q.head;
    params->k_stride_batch = k.batch, params->k_stride_row = k.row, params->k_stride_head = k.head;
    params->v_stride_batch = v.batch, params->v_stride_row = v.row, params->v_stride_head = v.head;
    params->o_stride_batch = o.batch, params->o_stride_row = o.row, params->o_stride_head = o.head;
    params->rows_q = views->q.rows;
    params->rows_k = views->k.rows;
    return GDPA_OK;
}

gdpa_status launch_shape_fill(const gdpa_spec *normalised, const struct kernel_plan *plan, const gdpa_args *args,
                              struct launch_shape *shape)
{
    gdpa_args own;
    TRY(args_read(&args, &own));
    TRY(sizes_check(normalised, args));
    FAIL_IF((args->flags & GDPA_ARGS_ACCUMULATE) != 0, GDPA_E_ARGUMENT,
            "GDPA_ARGS_ACCUMULATE is set, but the kernel is a forward one: only gradients are added to what is there");
    const struct views views = views_make(normalised, args);
    const bool empty = args->batch == 0 || view_is_empty(&views.q);
    struct launch_shape filled;
    memset(&filled, 0, sizeof filled);
    TRY(tensors_fill(normalised, &views, empty, &filled.params));
    TRY(arguments_fill(normalised, args, &filled.params));
    if (!empty) {
        TRY(tiles_count(normalised, plan, args, &filled.params));
    }
    TRY(grid_fill(filled.params.num_tiles, "query", plan->block_m, &filled.grid, &filled.grid_y));
    if (spec_is_listed(normalised)) {
        filled.schedule = (size_t)schedule_bytes(args->batch);
        filled.schedule_given = args->schedule_bytes;
        filled.params.schedule = args->schedule;
    }
    filled.sm_margin = (uint32_t)args->sm_margin;
    filled.block = (uint32_t)plan->threads;
    filled.smem = (uint32_t)plan->smem_bytes;
    if (plan->family == KERNEL_FAMILY_SM90 && !empty) {
        filled.persistent = true;
        filled.boxed = true;
        TRY(tensor_boxes_fill(normalised, plan, &filled.params, filled.boxes));
    }
    *shape = filled;
    return GDPA_OK;
}

gdpa_status schedule_params_fill(const gdpa_spec *normalised, const gdpa_args *args, struct gdpa_fwd_params *params)
{
    gdpa_args own;
    TRY(args_read(&args, &own));
    TRY(sizes_check(normalised, args));
    FAIL_IF(args->batch > SCHEDULE_LIMIT, GDPA_E_ARGUMENT,
            "batch %" PRId64 " is more than the 2^30 sequences of a schedule; split it", args->batch);
    struct gdpa_fwd_params filled;
    memset(&filled, 0, sizeof filled);
    TRY(arguments_fill(normalised, args, &filled));
    const struct views views = views_make(normalised, args);
    filled.rows_q = views.q.rows;
    filled.rows_k = views.k.rows;
    *params = filled;
    return GDPA_OK;
}
