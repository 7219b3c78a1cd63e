/*
 * Plans of the Hopper family, backward: keys stay, queries pass by (templates/bwd_sm90.cuh).
 *
 * Shared memory of the main kernel, in chunks of 64 columns of 2 bytes:
 *
 *     K, V        [block_n, head_dim], [block_n, head_dim_v]
 *     Q           [block_m, head_dim]      * query_stages
 *     dO          [block_m, head_dim_v]    * 2
 *     dS^T        [block_n, block_m]       * 4, or 3 of 128 rows; not for `deterministic`
 *     64 x 64 of a gradient for each of two consumers, but for fp32
 *     messages, notes on steps, barriers
 *
 * The second kernel is that of the portable family, but with `deterministic`: then it has warpgroups too (templates/bwd_queries_sm90.cuh),
 *
 *     Q, dO       [dq_rows, head_dim], [dq_rows, head_dim_v]
 *     K, V        [dq_keys, head_dim], [dq_keys, head_dim_v]     * dq_key_stages
 *     messages, barriers
 */
#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    CONSUMERS = 2,
    WARPGROUP_WARPS = 4,
    WARPGROUP_THREADS = 128,
    WARPGROUP_KEYS = 64,
    TILE_KEYS = CONSUMERS * WARPGROUP_KEYS,
    STEP_ROWS = 64,         /* query rows a step */
    NARROW_STEP_ROWS = 128, /* where dK and dV have 64 columns at most: what each step costs is shared by more rows */
    CHUNK_COLUMNS = 64,
    CHUNK_ROW_BYTES = 128,
    OUTPUT_STAGES = 2,
    MESSAGE_BYTES = 96,
    MESSAGES = 2, /* and one of the scout in the main kernel */
    NOTE_BYTES = 16,
    WHOLE_NOTE_BYTES = 32,
    NOTES = 8,
    BARRIER_BYTES = 8,
    BARRIERS = 10,         /* and 3 for each slot of Q and dO */
    PAIR_SCORE_STAGES = 4, /* two of the own dS, two of that of the other block */
    PAIR_BARRIERS = 13,    /* of its keys, and of what is sent */
    CLAIM_BYTES = 16,
    PAIRS_FEWEST_KEYS = 64,   /* on average */
    PAIRS_FEWEST_DENSE = 128, /* sequences and heads of keys */
    PRODUCER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
    /* Where the consumers need all that there are, it is the producer that spills: it has time. */
    FEWEST_PRODUCER_REGISTERS = 24,
    MOST_CONSUMER_REGISTERS = 240,
    FEW_REGISTERS = 208, /* of a consumer, as counted here; ptxas takes more where it can */
    /* Addresses, loop state and temporaries of the activation in a consumer. */
    OTHER_REGISTERS = 32,
    /* The second kernel of a deterministic pass. */
    WARPGROUP_ROWS = 64,
    DQ_CONSUMERS = 3,
    DQ_MOST_KEYS = 96,
    DQ_FEWEST_KEYS = 64,
    DQ_SLICE = 32,
    DQ_FEWEST_STAGES = 2,
    DQ_MOST_STAGES = 4,
    DQ_MESSAGE_BYTES = 64,
    DQ_BARRIERS = 4, /* and 6 for each slot of K and V */
    DQ_PRODUCER_REGISTERS = 56,
    DQ_CONSUMER_REGISTERS = 152,
    DQ_FEWEST_PRODUCER_REGISTERS = 32,
    DQ_MOST_CONSUMER_REGISTERS = 160,
    DQ_FEW_REGISTERS = 144, /* of a consumer, as counted here */
};

static int64_t chunk_bytes(int32_t columns, int32_t rows)
{
    return (int64_t)((columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS) * rows * CHUNK_ROW_BYTES;
}

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t keys = chunk_bytes(spec->head_dim, plan->block_n) + chunk_bytes(spec->head_dim_v, plan->block_n);
    bool paired = plan->cluster > 1;
    keys += paired ? chunk_bytes(CHUNK_COLUMNS, plan->block_n)
                   : 0; /* of K of the other block, the columns that dQ is made of */
    int64_t queries = plan->query_stages * chunk_bytes(spec->head_dim, plan->block_m) +
                      OUTPUT_STAGES * chunk_bytes(spec->head_dim_v, plan->block_m);
    int64_t score_stages = spec->deterministic                 ? 0
                           : paired                            ? PAIR_SCORE_STAGES
                           : plan->block_m == NARROW_STEP_ROWS ? 3
                                                               : 4;
    int64_t scores = score_stages * chunk_bytes(plan->block_m, plan->block_n);
    int64_t staging =
        paired || spec->out_dtype == GDPA_DTYPE_FP32 ? 0 : CONSUMERS * chunk_bytes(CHUNK_COLUMNS, WARPGROUP_KEYS);
    int64_t barriers = BARRIERS + (paired ? PAIR_BARRIERS : 0) + 3 * (plan->query_stages + OUTPUT_STAGES);
    int64_t note_bytes = plan_has_all_keys(plan) ? WHOLE_NOTE_BYTES : NOTE_BYTES;
    int64_t words = (int64_t)(MESSAGES + 1) * MESSAGE_BYTES + (int64_t)NOTES * note_bytes + barriers * BARRIER_BYTES;
    return keys + queries + scores + staging + words + (paired ? CLAIM_BYTES : 0);
}

static int64_t dq_smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t rows = chunk_bytes(spec->head_dim, plan->dq_rows) + chunk_bytes(spec->head_dim_v, plan->dq_rows);
    int64_t keys = chunk_bytes(spec->head_dim, plan->dq_keys) + chunk_bytes(spec->head_dim_v, plan->dq_keys);
    int64_t barriers = DQ_BARRIERS + 6 * plan->dq_key_stages;
    return rows + plan->dq_key_stages * keys + (int64_t)MESSAGES * DQ_MESSAGE_BYTES + barriers * BARRIER_BYTES;
}

/* Of a consumer thread of the second kernel: dQ, scores and dP of 64 rows, of which dS takes the place. */
static int32_t dq_registers(const struct kernel_plan *plan)
{
    return plan->depth_columns / 2 + plan->dq_keys + OTHER_REGISTERS;
}

/* Of a consumer thread: dK and dV of 64 keys, scores (then dP) and dQ of a step; P, f' and dS take the places of those as pairs. */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    (void)spec;
    return plan->depth_columns / 2 + plan->value_columns / 2 + plan->block_m / 2 + plan->share_columns / 2 +
           plan->block_m / 4 + OTHER_REGISTERS;
}

static int32_t step_rows(const gdpa_spec *spec)
{
    return spec->head_dim <= CHUNK_COLUMNS && spec->head_dim_v <= CHUNK_COLUMNS ? NARROW_STEP_ROWS : STEP_ROWS;
}

/*
 * Columns of dQ in a warpgroup: all of them, of 64 rows, where a step has 128; else half of them, which begin at a chunk of K or lie in the only
 * one.
 */
static int32_t share_for(const gdpa_spec *spec)
{
    if (step_rows(spec) == NARROW_STEP_ROWS) {
        return plan_wgmma_width(spec->head_dim);
    }
    return spec->head_dim > CHUNK_COLUMNS ? CHUNK_COLUMNS : plan_wgmma_width((spec->head_dim + 1) / 2);
}

static gdpa_status check_dq(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    int32_t consumers = plan->dq_rows / WARPGROUP_ROWS;
    if (plan->dq_rows % WARPGROUP_ROWS != 0 || consumers < 1 || consumers > 3 ||
        plan->dq_threads != (consumers + 1) * WARPGROUP_THREADS) {
        return fail(
            why, GDPA_E_ARGUMENT,
            "dq_rows of the plan is %d and dq_threads %d; each of 1 to 3 warpgroups owns 64 rows, and one copies",
            plan->dq_rows, plan->dq_threads);
    }
    if (!plan_is_wgmma_width(plan->dq_keys) || plan->dq_keys % plan->slice_n != 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "dq_keys of the plan is %d; legal are widths of wgmma that slice_n %d divides", plan->dq_keys,
                    plan->slice_n);
    }
    if (plan->dq_key_stages < DQ_FEWEST_STAGES || plan->dq_key_stages > DQ_MOST_STAGES) {
        return fail(why, GDPA_E_ARGUMENT, "dq_key_stages of the plan is %d; legal are %d to %d", plan->dq_key_stages,
                    DQ_FEWEST_STAGES, DQ_MOST_STAGES);
    }
    int64_t smem = dq_smem_bytes(spec, plan);
    if (plan->dq_smem_bytes != smem || smem > arch_find(spec->arch)->smem_block) {
        return fail(why, GDPA_E_ARGUMENT, "dq_smem_bytes of the plan is %d; its tiles take %lld, %s has %d",
                    plan->dq_smem_bytes, (long long)smem, arch_find(spec->arch)->target,
                    arch_find(spec->arch)->smem_block);
    }
    return GDPA_OK;
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    if (plan->block_m != step_rows(spec) || plan->block_n != TILE_KEYS ||
        plan->warps != (CONSUMERS + 1) * WARPGROUP_WARPS) {
        return fail(why, GDPA_E_ARGUMENT,
                    "block_m, block_n and warps of the plan are %d, %d and %d; the Hopper backward has %d, %d and %d",
                    plan->block_m, plan->block_n, plan->warps, step_rows(spec), TILE_KEYS,
                    (CONSUMERS + 1) * WARPGROUP_WARPS);
    }
    if (plan->query_stages < 2 || plan->query_stages > 3) {
        return fail(why, GDPA_E_ARGUMENT, "query_stages of the plan is %d; legal are 2 and 3", plan->query_stages);
    }
    if (!plan_is_wgmma_width(plan->depth_columns) || plan->depth_columns < spec->head_dim ||
        !plan_is_wgmma_width(plan->value_columns) || plan->value_columns < spec->head_dim_v ||
        plan->share_columns != share_for(spec)) {
        return fail(why, GDPA_E_ARGUMENT,
                    "depth_columns %d, value_columns %d or share_columns %d of the plan is no width of wgmma that "
                    "covers head_dim %d, head_dim_v %d or half of head_dim",
                    plan->depth_columns, plan->value_columns, plan->share_columns, spec->head_dim, spec->head_dim_v);
    }
    return spec->deterministic ? check_dq(spec, plan, why) : plan_check_second(spec, plan, why);
}

static const char *refusal(const gdpa_spec *spec)
{
    if (spec->arch != 90) {
        return "wgmma is on sm_90a only";
    }
    if (spec->unaligned) {
        return "the copy engine needs aligned tensors";
    }
    return spec->head_dim > 128 || spec->head_dim_v > 128
               ? "dK and dV of more than 128 columns do not fit the registers"
               : NULL;
}

/* The second kernel of a deterministic pass. */
static gdpa_status choose_dq(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                             struct sbuf *reasons, struct sbuf *why)
{
    plan->dq_rows = DQ_CONSUMERS * WARPGROUP_ROWS;
    plan->dq_threads = (DQ_CONSUMERS + 1) * WARPGROUP_THREADS;
    plan->slice_n = DQ_SLICE;
    plan->dq_keys = DQ_MOST_KEYS;
    while (plan->dq_keys > DQ_FEWEST_KEYS && dq_registers(plan) > DQ_MOST_CONSUMER_REGISTERS) {
        plan->dq_keys -= DQ_SLICE;
    }
    bool few = dq_registers(plan) <= DQ_FEW_REGISTERS;
    plan->dq_producer_registers = few ? DQ_PRODUCER_REGISTERS : DQ_FEWEST_PRODUCER_REGISTERS;
    plan->dq_consumer_registers = few ? DQ_CONSUMER_REGISTERS : DQ_MOST_CONSUMER_REGISTERS;
    for (plan->dq_key_stages = DQ_MOST_STAGES; plan->dq_key_stages >= DQ_FEWEST_STAGES; --plan->dq_key_stages) {
        plan->dq_smem_bytes = (int32_t)dq_smem_bytes(spec, plan);
        bool fits = plan->dq_smem_bytes <= arch->smem_block;
        sbuf_addf(reasons,
                  "reason: %sdq_rows %d, dq_keys %d, dq_key_stages %d: %d bytes of shared memory of %d, about %d "
                  "registers of %d\n",
                  fits ? "" : "not ", plan->dq_rows, plan->dq_keys, plan->dq_key_stages, plan->dq_smem_bytes,
                  arch->smem_block, dq_registers(plan), plan->dq_consumer_registers);
        if (fits) {
            return GDPA_OK;
        }
    }
    return fail(why, GDPA_E_UNSUPPORTED, "no query tile of head_dim %d and head_dim_v %d fits %s; take family portable",
                spec->head_dim, spec->head_dim_v, arch->target);
}

static const char *whole_refusal(const gdpa_spec *spec)
{
    const char *why = refusal(spec);
    if (why == NULL && spec->deterministic != 0) {
        return "kernels of deterministic passes are of family sm90";
    }
    return why == NULL && spec_is_listed(spec) ? "the spec names a schedule, and it has none" : why;
}

static const char *pairs_refusal(const gdpa_spec *spec)
{
    const char *why = whole_refusal(spec);
    return why == NULL && spec->head_dim <= CHUNK_COLUMNS ? "dq has no two chunks of 64 columns, one for each block"
                                                          : why;
}

static bool whole_suits(const gdpa_spec *spec, const struct plan_lengths *lengths)
{
    (void)spec;
    return lengths->longest_k <= TILE_KEYS;
}

/*
 * As measured against the family sm90, whose blocks share the queries of dense tiles where there are too few of them (reckoned for 132 SMs), and
 * which leaves no block of a pair without keys.
 */
static bool pairs_suits(const gdpa_spec *spec, const struct plan_lengths *lengths)
{
    const bool dense = spec->layout_q != GDPA_LAYOUT_JAGGED && spec->layout_k != GDPA_LAYOUT_JAGGED;
    return lengths->longest_k > TILE_KEYS && lengths->longest_k <= PLAN_PAIR_KEYS &&
           lengths->mean_k >= PAIRS_FEWEST_KEYS && (!dense || lengths->pairs >= PAIRS_FEWEST_DENSE);
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    const struct arch_row *arch = arch_find(spec->arch);
    plan->block_m = step_rows(spec);
    plan->block_n = TILE_KEYS;
    plan->warps = (CONSUMERS + 1) * WARPGROUP_WARPS;
    plan->threads = (CONSUMERS + 1) * WARPGROUP_THREADS;
    plan->min_blocks = 1;
    if (plan->cluster > 1) {
        sbuf_addf(reasons,
                  "reason: cluster %d: up to %d keys of a sequence in its blocks; each makes %d columns of dq\n",
                  plan->cluster, plan_tile_keys(plan), CHUNK_COLUMNS);
    } else if (plan_has_all_keys(plan)) {
        sbuf_addf(reasons, "reason: block_n %d: all keys of a sequence, so that dq is written and not summed up\n",
                  plan->block_n);
    }
    plan->stages = OUTPUT_STAGES;
    plan->depth_columns = plan_wgmma_width(spec->head_dim);
    plan->value_columns = plan_wgmma_width(spec->head_dim_v);
    plan->share_columns = share_for(spec);
    bool few = registers(spec, plan) <= FEW_REGISTERS;
    plan->producer_registers = few ? PRODUCER_REGISTERS : FEWEST_PRODUCER_REGISTERS;
    plan->consumer_registers = few ? CONSUMER_REGISTERS : MOST_CONSUMER_REGISTERS;
    if (spec->deterministic) {
        TRY(choose_dq(spec, plan, arch, reasons, why));
    } else {
        plan_choose_second(spec, plan, arch, reasons);
    }
    for (plan->query_stages = 3; plan->query_stages >= 2; --plan->query_stages) {
        plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
        bool fits = plan->smem_bytes <= arch->smem_block;
        sbuf_addf(
            reasons,
            "reason: %sblock_m %d, block_n %d, query_stages %d: %d bytes of shared memory of %d, about %d registers "
            "of %d\n",
            fits ? "" : "not ", plan->block_m, plan->block_n, plan->query_stages, plan->smem_bytes, arch->smem_block,
            registers(spec, plan), plan->consumer_registers);
        if (fits) {
            return GDPA_OK;
        }
    }
    return fail(why, GDPA_E_UNSUPPORTED, "no tile of head_dim %d and head_dim_v %d fits %s; take family portable",
                spec->head_dim, spec->head_dim_v, arch->target);
}

const struct plan_family plan_bwd_sm90 = {
    .pass = GDPA_PASS_BACKWARD,
    .number = KERNEL_FAMILY_SM90,
    .name = "sm90",
    .entry = "bwd_sm90.cuh",
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};

const struct plan_family plan_bwd_whole = {
    .pass = GDPA_PASS_BACKWARD,
    .number = KERNEL_FAMILY_WHOLE,
    .name = "whole",
    .entry = "bwd_sm90.cuh",
    .by_request = "a spec does not say that keys are few; gdpa_backward takes it where the lengths that it is given do",
    .suits = whole_suits,
    .refusal = whole_refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};

const struct plan_family plan_bwd_pairs = {
    .pass = GDPA_PASS_BACKWARD,
    .number = KERNEL_FAMILY_PAIRS,
    .name = "pairs",
    .entry = "bwd_sm90.cuh",
    .cluster = 2,
    .by_request = "a spec does not say that keys are few; gdpa_backward takes it where the lengths that it is given do",
    .suits = pairs_suits,
    .refusal = pairs_refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
