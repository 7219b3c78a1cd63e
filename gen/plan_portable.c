/*
 * Plans of the portable family: mma.sync with the accumulators in registers, cp.async into swizzled shared memory.
 * Runs on sm_80 and every later architecture.
 *
 * Shared memory, 2 bytes an element, columns padded by plan_padded_dim:
 *
 *     Q     [block_m, head_dim]; the output is staged in the same place, so as wide as head_dim_v if that is more
 *     K     [block_n, head_dim]   * stages
 *     V     [block_n, head_dim_v] * stages
 *     16 bytes that the epilogue reads
 *
 * A tile is copied while the stages - 1 tiles before it are used.
 */
#include <stdlib.h>

#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    ELEMENT_BYTES = 2,
    EPILOGUE_BYTES = 16,
    FEWEST_STAGES = 2,
    MOST_STAGES = 4,
    MOST_ROWS_A_WARP = 64,
    MOST_REGISTERS = 255,
    /* Addresses, loop counters, K and V fragments and temporaries of the activation, as ptxas reports them. */
    OTHER_REGISTERS = 44,
    /* More of them while all of Q stays in registers. */
    QUERY_REGISTERS = 12,
};

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t dim = plan_padded_dim(spec->head_dim);
    int64_t dim_v = plan_padded_dim(spec->head_dim_v);
    int64_t q = plan->block_m * (dim_v > dim ? dim_v : dim);
    int64_t kv = (int64_t)plan->stages * plan->block_n * (dim + dim_v);
    return (q + kv) * ELEMENT_BYTES + EPILOGUE_BYTES;
}

/*
 * A thread of a warp holds 1/32 of each tile: the output [rows, head_dim_v] and the scores [rows, slice_n] in fp32, the
 * probabilities of 16 keys and Q (all of it, or 16 columns) as pairs of 16 bits.
 */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int32_t rows = plan->block_m / plan->warps;
    int32_t output = rows * plan_padded_dim(spec->head_dim_v) / 32;
    int32_t scores = rows * plan->slice_n / 32;
    int32_t probabilities = rows * 16 / 64;
    int32_t q = rows * (plan->q_in_registers ? plan_padded_dim(spec->head_dim) : 16) / 64;
    return output + scores + probabilities + q + OTHER_REGISTERS;
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    (void)spec;
    int32_t rows = plan->block_m / plan->warps;
    if ((plan->query_stages | plan->value_columns | plan->producer_registers | plan->consumer_registers) != 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "query_stages, value_columns, producer_registers or consumer_registers of the plan is set: it "
                    "belongs to another family than portable");
    }
    if (plan->block_m % plan->warps != 0 || rows % 16 != 0 || rows > MOST_ROWS_A_WARP) {
        return fail(why, GDPA_E_ARGUMENT,
                    "block_m of the plan is %d for %d warps; each warp owns a multiple of 16 rows, at most %d",
                    plan->block_m, plan->warps, MOST_ROWS_A_WARP);
    }
    if (plan->stages < FEWEST_STAGES || plan->stages > MOST_STAGES) {
        return fail(why, GDPA_E_ARGUMENT, "stages of the plan is %d; legal are %d to %d", plan->stages, FEWEST_STAGES,
                    MOST_STAGES);
    }
    return GDPA_OK;
}

/* Queries stay in registers where few do and the scores of 32 keys still fit beside them. */
static void choose_queries(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons)
{
    plan->q_in_registers = spec->head_dim <= 64;
    plan->slice_n = plan->block_n < 32 ? plan->block_n : 32;
    int32_t needed = registers(spec, plan);
    plan->q_in_registers = plan->q_in_registers && needed + QUERY_REGISTERS <= MOST_REGISTERS;
    sbuf_addf(reasons, "reason: q_in_registers %d: head_dim %d, about %d registers a thread with %d keys\n",
              plan->q_in_registers, spec->head_dim, needed, plan->slice_n);
}

/* Keys whose scores are held at a time: the most that fit the registers. */
static void choose_slice(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons)
{
    for (plan->slice_n = plan->block_n; plan->slice_n > 16; plan->slice_n /= 2) {
        int32_t needed = registers(spec, plan);
        if (needed <= MOST_REGISTERS) {
            break;
        }
        sbuf_addf(reasons, "reason: not slice_n %d: about %d registers a thread, there are %d\n", plan->slice_n, needed,
                  MOST_REGISTERS);
    }
    sbuf_addf(reasons, "reason: slice_n %d: about %d registers a thread\n", plan->slice_n, registers(spec, plan));
}

/*
 * Tile ladders, best first, as measured on sm_90 (docs/kernels.md): 32 rows a warp use each K and V fragment twice, where the
 * output of 32 rows leaves registers for it; two blocks an SM fill each other's gaps; one block of eight warps comes next.
 */
struct rung {
    int32_t block_m, warps, block_n, stages, min_blocks;
};

static const struct rung ladder_up_to_128[] = {
    {128, 4, 64, 2, 2}, {128, 4, 32, 2, 2}, {128, 4, 64, 2, 1}, {128, 4, 32, 2, 1}, {64, 4, 32, 2, 1}, {0, 0, 0, 0, 0},
};
static const struct rung ladder_wide_keys[] = {
    /* head_dim above 128, head_dim_v not */
    {128, 4, 32, 2, 2}, {128, 4, 32, 2, 1}, {64, 4, 32, 2, 1}, {64, 4, 16, 2, 1}, {0, 0, 0, 0, 0},
};
static const struct rung ladder_wide_values[] = {
    {128, 8, 64, 2, 1}, {64, 4, 32, 2, 2}, {64, 4, 32, 2, 1}, {64, 4, 16, 2, 1}, {0, 0, 0, 0, 0},
};

static const struct rung *choose_ladder(const gdpa_spec *spec, struct sbuf *reasons)
{
    if (spec->head_dim_v > 128) {
        sbuf_addf(reasons,
                  "reason: 16 rows a warp: the output of 32 rows of head_dim_v %d would not fit the registers\n",
                  spec->head_dim_v);
        return ladder_wide_values;
    }
    sbuf_addstr(reasons, "reason: 32 rows a warp use each K and V fragment twice\n");
    return spec->head_dim > 128 ? ladder_wide_keys : ladder_up_to_128;
}

static bool rung_fits(const struct kernel_plan *plan, const struct arch_row *arch, struct sbuf *reasons)
{
    int32_t needed = plan->min_blocks * (plan->smem_bytes + SMEM_RESERVED_BYTES);
    bool fits = plan->smem_bytes <= arch->smem_block && needed <= arch->smem_sm;
    sbuf_addf(
        reasons,
        "reason: %sblock_m %d, block_n %d, stages %d, min_blocks %d: %d bytes of shared memory an SM, %s has %d\n",
        fits ? "" : "not ", plan->block_m, plan->block_n, plan->stages, plan->min_blocks, needed, arch->target,
        arch->smem_sm);
    return fits;
}

static const char *refusal(const gdpa_spec *spec)
{
    (void)spec;
    return NULL;
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    const struct arch_row *arch = arch_find(spec->arch);
    for (const struct rung *rung = choose_ladder(spec, reasons); rung->block_m > 0; ++rung) {
        plan->block_m = rung->block_m;
        plan->warps = rung->warps;
        plan->threads = rung->warps * 32;
        plan->block_n = rung->block_n;
        plan->stages = rung->stages;
        plan->min_blocks = rung->min_blocks;
        plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
        if (rung_fits(plan, arch, reasons)) {
            choose_queries(spec, plan, reasons);
            choose_slice(spec, plan, reasons);
            return GDPA_OK;
        }
    }
    return fail(why, GDPA_E_UNSUPPORTED,
                "no tile of head_dim %d and head_dim_v %d fits the %d bytes of shared memory of %s", spec->head_dim,
                spec->head_dim_v, arch->smem_block, arch->target);
}

const struct plan_family plan_portable = {
    .pass = GDPA_PASS_FORWARD,
    .number = KERNEL_FAMILY_PORTABLE,
    .name = "portable",
    .entry = "fwd_portable.cuh",
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
