/*
 * Arguments -> kernel parameters and grids of a backward; see backward_params.h. Pure arithmetic, on every launch: no allocation. The
 * numbering of the tiles is the one that templates/gradient_tiles.cuh takes apart again.
 */
#include "runtime/backward_params.h"
#include "runtime/error.h"
#include "runtime/launch_checks.h"

#include <inttypes.h>
#include <string.h>

#define SUM_BLOCK 16                      /* dq_sum consists of blocks of so many rows and columns */
#define CLAIMED_TILES INT64_C(2147418112) /* their numbers, and a claim of each block behind them, fit the counter */
#define MOST_PIECES 8
#define RECORDS ((size_t)GDPA_BWD_MOST_SHARED * MOST_PIECES)
#define TURNS 4 /* under a causal mask */

/* ---------------------------------------------------------------------------------------------------------------
 * Tensors
 * ------------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct view *view, const gdpa_args *args)
{
    return view->tensor->data != NULL && args->batch > 0 && !view_is_empty(view);
}

/*
 * Gradients must not share memory with each other, or with what is still read. Ranges may: they may be views of one buffer. What has no elements
 * shares nothing, and begins where the next part of a buffer does.
 */
static gdpa_status aliases_check(const struct views *views, const gdpa_args *args)
{
    const struct view *const all[] = {&views->dq, &views->dk, &views->dv,  &views->q,
                                      &views->k,  &views->v,  &views->dout};
    for (int i = 0; i < 3; i++) {
        for (int j = i + 1; is_wanted(all[i], args) && j < 7; j++) {
            FAIL_IF(all[i]->tensor->data == all[j]->tensor->data && !view_is_empty(all[j]), GDPA_E_ARGUMENT,
                    "%s.data is %p, and so is %s.data: a gradient needs memory of its own", all[i]->name,
                    all[i]->tensor->data, all[j]->name);
        }
    }
    return GDPA_OK;
}

static gdpa_status inputs_fill(const gdpa_spec *spec, const struct views *views, bool untouched,
                               struct gdpa_bwd_params *params)
{
    struct strides q, k, v, dout;
    const bool unaligned = spec->unaligned != 0;
    TRY(tensor_check(&views->q, unaligned, untouched, &q));
    TRY(tensor_check(&views->k, unaligned, untouched, &k));
    TRY(tensor_check(&views->v, unaligned, untouched, &v));
    TRY(tensor_check(&views->dout, unaligned, untouched, &dout));
    params->q = views->q.tensor->data;
    params->k = views->k.tensor->data;
    params->v = views->v.tensor->data;
    params->dout = views->dout.tensor->data;
    params->q_stride_batch = q.batch, params->q_stride_row = q.row, params->q_stride_head = q.head;
    params->k_stride_batch = k.batch, params->k_stride_row = k.row, params->k_stride_head = k.head;
    params->v_stride_batch = v.batch, params->v_stride_row = v.row, params->v_stride_head = v.head;
    params->dout_stride_batch = dout.batch, params->dout_stride_row = dout.row, params->dout_stride_head = dout.head;
    params->rows_q = views->q.rows;
    params->rows_k = views->k.rows;
    return GDPA_OK;
}

static gdpa_status outputs_fill(const gdpa_spec *spec, const struct views *views, const gdpa_args *args,
                                struct gdpa_bwd_params *params)
{
    struct strides dq, dk, dv;
    const bool unaligned = spec->unaligned != 0;
    const bool wants_dq = is_wanted(&views->dq, args);
    const bool wants_dk = is_wanted(&views->dk, args);
    const bool wants_dv = is_wanted(&views->dv, args);
    TRY(tensor_check(&views->dq, unaligned, !wants_dq, &dq));
    TRY(tensor_check(&views->dk, unaligned, !wants_dk, &dk));
    TRY(tensor_check(&views->dv, unaligned, !wants_dv, &dv));
    TRY(aliases_check(views, args));
    params->dq = wants_dq ? views->dq.tensor->data : NULL;
    params->dk = wants_dk ? views->dk.tensor->data : NULL;
    params->dv = wants_dv ? views->dv.tensor->data : NULL;
    params->dq_stride_batch = dq.batch, params->dq_stride_row = dq.row, params->dq_stride_head = dq.head;
    params->dk_stride_batch = dk.batch, params->dk_stride_row = dk.row, params->dk_stride_head = dk.head;
    params->dv_stride_batch = dv.batch, params->dv_stride_row = dv.row, params->dv_stride_head = dv.head;
    return GDPA_OK;
}

static gdpa_status arguments_fill(const gdpa_spec *spec, const gdpa_args *args, struct gdpa_bwd_params *params)
{
    struct scalars scalars;
    TRY(scalars_fill(spec, args, &scalars));
    FAIL_IF((args->flags & GDPA_ARGS_ACCUMULATE) != 0 && spec->out_dtype != GDPA_DTYPE_FP32, GDPA_E_ARGUMENT,
            "GDPA_ARGS_ACCUMULATE is set, but out_dtype is %s: gradients are added up in fp32 only",
            dtype_find(spec->out_dtype)->name);
    params->accumulate = (args->flags & GDPA_ARGS_ACCUMULATE) != 0;
    params->scale = scalars.scale;
    params->out_scale = scalars.out_scale;
    params->activation_param = scalars.activation_param;
    params->batch = (int32_t)args->batch;
    params->heads_q = (int32_t)args->heads_q;
    params->heads_k = (int32_t)args->heads_k;
    params->heads_per_group = (int32_t)(args->heads_q / args->heads_k);
    params->cu_seqlens_q = args->cu_seqlens_q;
    params->cu_seqlens_k = args->cu_seqlens_k;
    params->seqused_q = args->seqused_q;
    params->seqused_k = args->seqused_k;
    return GDPA_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Tiles
 * ------------------------------------------------------------------------------------------------------------- */

/* The rows of one side, cut into tiles. */
struct rows {
    const char *kind;
    bool jagged;
    int64_t batch, heads, rows, max_seqlen; /* rows: of a sequence, or of all when jagged; max_seqlen 0: unknown */
    int32_t tile;
};

static int64_t longest(const struct rows *side)
{
    return longest_rows(side->jagged, side->rows, side->rows, side->max_seqlen);
}

/*
 * Direct mapping: every sequence has *per_sequence tiles, at least `least`. Search mapping, where that would be more tiles (jagged rows of
 * unknown or very uneven lengths): *per_sequence is 0, and sequence b owns the virtual tiles from cu_seqlens[b] / tile + b on.
 */
static gdpa_status tiles_count(const struct rows *side, int64_t least, int32_t *per_sequence, int64_t *tiles)
{
    int64_t each = divide_up(longest(side), side->tile);
    each = each > least ? each : least;
    int64_t per_head; /* below 2^31 * 2^31 */
    bool direct = !__builtin_mul_overflow(side->batch, each, &per_head);
    const int64_t virtual_tiles = side->rows / side->tile + side->batch;
    if (side->jagged && !(direct && per_head <= virtual_tiles)) {
        direct = false;
        per_head = virtual_tiles;
    }
    *per_sequence = direct ? (int32_t)each : 0;
    FAIL_IF(__builtin_mul_overflow(per_head, side->heads, tiles), GDPA_E_ARGUMENT,
            "the batch and the heads make more than 2^63 %s tiles of %d rows", side->kind, side->tile);
    return GDPA_OK;
}

static gdpa_status sums_size(const gdpa_spec *spec, const struct gdpa_bwd_params *params, bool jagged_q, size_t *bytes)
{
    const int64_t columns = divide_up(spec->head_dim, SUM_BLOCK) * SUM_BLOCK;
    /* Jagged: the last block of a sequence and the first one of the next may have rows in common, so each has its own. */
    const int64_t blocks = jagged_q ? params->rows_q / SUM_BLOCK + params->batch : divide_up(params->rows_q, SUM_BLOCK);
    int64_t size = SUM_BLOCK * columns * (int64_t)sizeof(float);
    const bool overflow = __builtin_mul_overflow(size, params->heads_q, &size) ||
                          __builtin_mul_overflow(size, blocks, &size) ||
                          __builtin_mul_overflow(size, jagged_q ? 1 : (int64_t)params->batch, &size);
    FAIL_IF(overflow, GDPA_E_ARGUMENT, "the workspace for dq would have more than 2^63 bytes; split the batch");
    *bytes = (size_t)size;
    return GDPA_OK;
}

/* Memory for the order of the main kernel of the Hopper family. Nothing in it grows with the problem. */
static void order_size(const gdpa_spec *spec, const struct kernel_plan *plan, bool jagged, struct backward_shape *shape)
{
    const int64_t tiles = shape->params.num_tiles;
    shape->workspace = shape->sums;
    shape->zeros = shape->sums;
    shape->turns = 1;
    if (!plan_is_hopper(plan) || spec->deterministic != 0 || tiles == 0 || tiles > CLAIMED_TILES ||
        spec_is_listed(spec)) { /* whose counter is in the schedule */
        return;
    }
    const bool masked = spec->causal != 0 || spec->window_left >= 0 || spec->window_right >= 0;
    const int64_t pairs = (int64_t)shape->params.batch * shape->params.heads_k;
    shape->ordered = true;
    shape->shares = shape->sums > 0 && !masked && !jagged; /* all tiles cost the same */
    shape->turns = spec->causal != 0 && pairs % TURNS == 0 && !plan_has_all_keys(plan) ? TURNS : 1;
    shape->zeros += GDPA_BWD_COUNTER_BYTES;
    shape->workspace = shape->zeros;
    if (shape->shares) {
        const size_t columns = (size_t)plan->depth_columns + (size_t)plan->value_columns;
        shape->workspace += RECORDS * sizeof(float) * (size_t)plan->block_n * columns;
    }
}

/* Of a main kernel that finds its tiles in one. */
static gdpa_status schedule_fill(const struct kernel_plan *plan, const gdpa_args *args, struct backward_shape *shape)
{
    FAIL_IF(shape->params.num_tiles > SCHEDULE_LIMIT, GDPA_E_ARGUMENT,
            "batch %" PRId64 " and heads_k %" PRId64 " make up to %" PRId64
            " key tiles of %d rows; schedule zigzag and dynamic count to 2^30: leave schedule auto, or split the batch",
            args->batch, args->heads_k, shape->params.num_tiles, plan->block_n);
    shape->schedule = args->schedule;
    shape->schedule_given = args->schedule_bytes;
    shape->schedule_bytes = shape->params.num_tiles > 0 ? (size_t)schedule_bytes(args->batch) : 0;
    return GDPA_OK;
}

static gdpa_status grids_fill(const gdpa_spec *spec, const struct kernel_plan *plan, const gdpa_args *args,
                              struct backward_shape *shape)
{
    struct gdpa_bwd_params *params = &shape->params;
    const struct rows queries = {.kind = "query",
                                 .jagged = spec->layout_q == GDPA_LAYOUT_JAGGED,
                                 .batch = args->batch,
                                 .heads = args->heads_q,
                                 .rows = params->rows_q,
                                 .max_seqlen = args->max_seqlen_q,
                                 .tile = plan_second_rows(plan)};
    const struct rows keys = {.kind = "key",
                              .jagged = spec->layout_k == GDPA_LAYOUT_JAGGED,
                              .batch = args->batch,
                              .heads = args->heads_k,
                              .rows = params->rows_k,
                              .max_seqlen = args->max_seqlen_k,
                              .tile = plan_tile_keys(plan)};
    const bool wants_dq = params->dq != NULL;
    /* A block that has all keys of its sequence writes dq itself; it must be there without any key, too. */
    const bool one_tile = spec->deterministic == 0 && longest(&keys) <= keys.tile;
    FAIL_IF(wants_dq && !one_tile && plan_has_all_keys(plan), GDPA_E_ARGUMENT,
            "a sequence may have %" PRId64 " keys (%s), and family %s makes dq from all of them at a time, at most %d; "
            "%s, or leave family auto",
            longest(&keys),
            keys.jagged ? keys.max_seqlen > 0 ? "max_seqlen_k" : "total_k, max_seqlen_k is 0" : "seqlen_k",
            plan_family_name(plan->family), keys.tile, keys.jagged ? "give the true max_seqlen_k" : "take family sm90");
    if (wants_dq && !one_tile) {
        TRY(tiles_count(&queries, 1, &params->query_tiles_per_seq, &params->num_query_tiles));
        if (spec->deterministic == 0) {
            TRY(sums_size(spec, params, queries.jagged, &shape->sums));
        }
    }
    if (params->dk != NULL || params->dv != NULL || (wants_dq && spec->deterministic == 0)) {
        TRY(tiles_count(&keys, wants_dq && one_tile ? 1 : 0, &params->tiles_per_seq, &params->num_tiles));
    }
    order_size(spec, plan, queries.jagged || keys.jagged, shape);
    if (spec_is_listed(spec)) {
        TRY(schedule_fill(plan, args, shape));
    }
    TRY(grid_fill(params->num_tiles, "key", keys.tile, &shape->main.x, &shape->main.y));
    TRY(grid_fill(params->num_query_tiles, "query", queries.tile, &shape->second.x, &shape->second.y));
    shape->cluster = plan->cluster > 1 ? (uint32_t)plan->cluster : 1;
    shape->main.block = (uint32_t)plan->threads;
    shape->main.smem = (uint32_t)plan->smem_bytes;
    shape->second.block = (uint32_t)plan->dq_threads;
    shape->second.smem = (uint32_t)plan->dq_smem_bytes;
    return GDPA_OK;
}

gdpa_status backward_shape_fill(const gdpa_spec *normalised, const struct kernel_plan *plan, const gdpa_args *args,
                                struct backward_shape *shape)
{
    gdpa_args own;
    TRY(args_read(&args, &own));
    TRY(sizes_check(normalised, args));
    const struct views views = views_make(normalised, args);
    struct backward_shape filled;
    memset(&filled, 0, sizeof filled);
    struct gdpa_bwd_params *params = &filled.params;
    TRY(outputs_fill(normalised, &views, args, params));
    const bool nothing = params->dq == NULL && params->dk == NULL && params->dv == NULL;
    TRY(inputs_fill(normalised, &views, nothing, params));
    TRY(arguments_fill(normalised, args, params));
    if (!nothing) {
        TRY(grids_fill(normalised, plan, args, &filled));
    }
    filled.sm_margin = (uint32_t)args->sm_margin;
    if (plan_is_hopper(plan) && filled.main.x > 0) {
        filled.persistent = true;
        filled.boxed = true;
        TRY(backward_boxes_fill(normalised, params, plan->block_m, plan->block_n, plan_stores_queries(normalised, plan),
                                filled.boxes));
    }
    if (plan->dq_rows > 0 && filled.second.x > 0) {
        filled.second_boxed = true;
        TRY(backward_boxes_fill(normalised, params, plan->dq_rows, plan->dq_keys, false, filled.second_boxes));
    }
    *shape = filled;
    return GDPA_OK;
}

void backward_shape_place(struct backward_shape *shape, void *workspace)
{
    shape->memory = workspace;
    shape->params.dq_sum = shape->sums > 0 ? workspace : NULL;
    if (workspace == NULL) {
        shape->ordered = shape->shares = false;
        shape->turns = 1;
        shape->zeros = 0;
    }
}

void backward_boxed_fill(const struct backward_shape *shape, struct gdpa_bwd_sm90_main_params *boxed)
{
    unsigned char *const order = (unsigned char *)shape->memory + shape->sums;
    boxed->tiles.common = shape->params;
    boxed->order = (struct gdpa_bwd_order){.counter = shape->ordered ? (void *)order : NULL,
                                           .records = shape->ordered ? (void *)(order + GDPA_BWD_COUNTER_BYTES) : NULL,
                                           .num_numbers = shape->num_numbers,
                                           .first_shared = shape->first_shared,
                                           .pieces = shape->pieces,
                                           .turns = shape->turns,
                                           .schedule = shape->schedule};
}

/* At most a cluster for each tile, and no more of them than there is room for. */
static void grid_fit(struct backward_grid *grid, uint32_t cluster, uint32_t multiprocessors)
{
    const uint32_t clusters = multiprocessors >= cluster ? multiprocessors / cluster : 1;
    if (grid->y > 1 || grid->x > clusters) {
        grid->x = clusters;
        grid->y = 1;
    }
    grid->x *= cluster;
}

/*
 * Where all tiles cost the same, the last round of them has some for few blocks only, and the others would have nothing to do. So these few are
 * shared by all blocks, each of which takes some of the queries.
 */
static void shares_fit(struct backward_shape *shape)
{
    const int64_t blocks = shape->main.x;
    const int64_t left = blocks > 0 ? shape->params.num_tiles % blocks : 0;
    shape->num_numbers = shape->params.num_tiles;
    shape->first_shared = shape->params.num_tiles;
    shape->pieces = 1;
    if (!shape->shares || left == 0 || left > GDPA_BWD_MOST_SHARED) {
        return;
    }
    int64_t pieces = blocks / left < MOST_PIECES ? blocks / left : MOST_PIECES;
    pieces = pieces < shape->params.query_tiles_per_seq ? pieces : shape->params.query_tiles_per_seq;
    if (pieces > 1) {
        shape->pieces = (int32_t)pieces;
        shape->first_shared -= left;
        shape->num_numbers += left * (pieces - 1);
    }
}

void backward_shape_fit(struct backward_shape *shape, uint32_t multiprocessors)
{
    multiprocessors = without_margin(multiprocessors, shape->sm_margin);
    if (shape->persistent) {
        grid_fit(&shape->main, shape->cluster, multiprocessors);
    }
    shares_fit(shape);
    if (shape->second_boxed) {
        grid_fit(&shape->second, 1, multiprocessors);
    }
}
