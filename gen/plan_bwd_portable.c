/*
 * Plans of the portable family, backward: keys stay, queries pass by (templates/bwd_portable.cuh). Runs on sm_80 and every later
 * architecture.
 *
 * Shared memory of the main kernel, 2 bytes an element, columns padded by plan_padded_dim:
 *
 *     K, V        [block_n, head_dim], [block_n, head_dim_v]
 *     Q, dO       [block_m, head_dim], [block_m, head_dim_v]     * stages
 *     dS^T        [block_n, block_m]; and P^T, where warps share keys (column_parts 2)
 *
 * The second kernel converts dq sums and needs none; with `deterministic` it computes dQ, and has Q and dO of block_m rows, and two slots
 * of K and V of slice_n rows.
 */
#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    ELEMENT_BYTES = 2,
    FEWEST_STAGES = 2,
    MOST_STAGES = 4,
    MMA_ROWS = 16,
    MOST_REGISTERS = 255,
    SM_REGISTERS = 65536,
    CONVERT_THREADS = 256,
    DQ_STAGES = 2,
    /* Addresses, loop counters, operand fragments and temporaries of the activation, as ptxas reports them. */
    OTHER_REGISTERS = 76,
    /* More of them in the second kernel. */
    DQ_REGISTERS = 40,
};

static int64_t row_bytes(const gdpa_spec *spec)
{
    return (int64_t)ELEMENT_BYTES * (plan_padded_dim(spec->head_dim) + plan_padded_dim(spec->head_dim_v));
}

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t scores = (int64_t)ELEMENT_BYTES * plan->block_n * plan_padded_dim(plan->block_m);
    return (plan->block_n + (int64_t)plan->stages * plan->block_m) * row_bytes(spec) +
           scores * (plan->column_parts > 1 ? 2 : 1);
}

static int64_t dq_smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    return spec->deterministic ? (plan->block_m + (int64_t)DQ_STAGES * plan->slice_n) * row_bytes(spec) : 0;
}

/* Groups of 16 columns. */
static int32_t groups(int32_t dim)
{
    return (dim + 15) / 16;
}

static int32_t divide_up(int32_t value, int32_t divisor)
{
    return (value + divisor - 1) / divisor;
}

/*
 * Of the main kernel. A thread of a warp holds 1/32 of each tile: dK and dV of its keys and columns, and the scores and dP of a
 * slice of the queries in fp32; P or dS as pairs of 16 bits.
 */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int32_t keys = plan->block_n * plan->column_parts / plan->warps;
    int32_t rows = plan->slice_m;
    int32_t columns = 16 * (divide_up(groups(spec->head_dim), plan->column_parts) +
                            divide_up(groups(spec->head_dim_v), plan->column_parts));
    return keys * columns / 32 + 2 * keys * rows / 32 + keys * rows / 64 + OTHER_REGISTERS;
}

/* Of the second kernel of a deterministic pass: dQ, scores and dP of 16 rows. */
static int32_t dq_registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    return MMA_ROWS * (16 * groups(spec->head_dim) + 2 * plan->slice_n) / 32 + OTHER_REGISTERS + DQ_REGISTERS;
}

gdpa_status plan_check_second(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    int32_t threads = spec->deterministic ? plan->block_m / MMA_ROWS * 32 : CONVERT_THREADS;
    if (plan->dq_threads != threads || plan->dq_smem_bytes != dq_smem_bytes(spec, plan)) {
        return fail(
            why, GDPA_E_ARGUMENT,
            "dq_threads of the plan is %d and dq_smem_bytes %d; the second kernel has %d threads and takes %lld bytes",
            plan->dq_threads, plan->dq_smem_bytes, threads, (long long)dq_smem_bytes(spec, plan));
    }
    if (plan->dq_smem_bytes > arch_find(spec->arch)->smem_block) {
        return fail(why, GDPA_E_ARGUMENT, "dq_smem_bytes of the plan is %d; %s has %d", plan->dq_smem_bytes,
                    arch_find(spec->arch)->target, arch_find(spec->arch)->smem_block);
    }
    return GDPA_OK;
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    if ((plan->query_stages | plan->value_columns | plan->producer_registers | plan->consumer_registers |
         plan->q_in_registers) != 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "query_stages, value_columns, producer_registers, consumer_registers or q_in_registers of the plan "
                    "is set: it belongs to another kernel than the portable backward");
    }
    if (plan->column_parts < 1 || plan->column_parts > 2 || plan->warps % plan->column_parts != 0 ||
        plan->block_m % (MMA_ROWS * plan->column_parts) != 0) {
        return fail(
            why, GDPA_E_ARGUMENT,
            "column_parts of the plan is %d for %d warps and block_m %d; legal are 1 and 2, each with 16 rows or more",
            plan->column_parts, plan->warps, plan->block_m);
    }
    int32_t part = plan->block_m / plan->column_parts;
    if (plan->slice_m < MMA_ROWS || plan->slice_m % MMA_ROWS != 0 || part % plan->slice_m != 0) {
        return fail(why, GDPA_E_ARGUMENT, "slice_m of the plan is %d; legal are multiples of 16 that divide %d rows",
                    plan->slice_m, part);
    }
    int32_t key_warps = plan->warps / plan->column_parts;
    if (plan->block_n % (MMA_ROWS * key_warps) != 0) {
        return fail(why, GDPA_E_ARGUMENT, "block_n of the plan is %d; each of %d warps owns a multiple of 16 keys",
                    plan->block_n, key_warps);
    }
    int32_t row_tiles = plan->block_m % 32 == 0 && plan->warps % (plan->block_m / 32) == 0 ? 2 : 1;
    if (plan->warps % (plan->block_m / (MMA_ROWS * row_tiles)) != 0) {
        return fail(why, GDPA_E_ARGUMENT, "block_m of the plan is %d, whose dQ %d warps cannot divide", plan->block_m,
                    plan->warps);
    }
    if (plan->stages < FEWEST_STAGES || plan->stages > MOST_STAGES) {
        return fail(why, GDPA_E_ARGUMENT, "stages of the plan is %d; legal are %d to %d", plan->stages, FEWEST_STAGES,
                    MOST_STAGES);
    }
    return plan_check_second(spec, plan, why);
}

/*
 * Tiles, best first: 128 keys a block read each query tile least often; where dK and dV of 16 keys do not fit the registers of a warp, two
 * warps divide them; the rest is for large head dims in little shared memory.
 */
static const struct rung {
    int32_t block_m, block_n, warps, column_parts, min_blocks;
} ladder[] = {
    {64, 128, 8, 1, 1}, {32, 128, 8, 1, 1}, {64, 64, 8, 2, 1}, {32, 64, 8, 2, 1}, {32, 32, 4, 2, 1}, {32, 16, 2, 2, 1},
};

/* Queries whose scores are held at a time: the most that fit the registers. False when none do. */
static bool choose_slice(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons)
{
    int32_t most = SM_REGISTERS / (plan->threads * plan->min_blocks);
    most = most < MOST_REGISTERS ? most : MOST_REGISTERS;
    for (plan->slice_m = plan->block_m / plan->column_parts;; plan->slice_m /= 2) {
        int32_t needed = registers(spec, plan);
        bool fits = needed <= most;
        sbuf_addf(reasons, "reason: %sslice_m %d: about %d registers of %d\n", fits ? "" : "not ", plan->slice_m,
                  needed, most);
        if (fits || plan->slice_m <= MMA_ROWS) {
            return fits;
        }
    }
}

static bool rung_fits(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                      struct sbuf *reasons)
{
    int32_t resident = plan->min_blocks * (plan->smem_bytes + SMEM_RESERVED_BYTES);
    bool fits = plan->smem_bytes <= arch->smem_block && resident <= arch->smem_sm;
    sbuf_addf(
        reasons,
        "reason: %sblock_m %d, block_n %d, warps %d, column_parts %d: %d bytes of shared memory an SM, %s has %d\n",
        fits ? "" : "not ", plan->block_m, plan->block_n, plan->warps, plan->column_parts, resident, arch->target,
        arch->smem_sm);
    return fits && choose_slice(spec, plan, reasons);
}

/* The second kernel. Keys a tile: the most that fit. */
void plan_choose_second(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                        struct sbuf *reasons)
{
    plan->slice_n = plan->block_n;
    plan->dq_threads = CONVERT_THREADS;
    plan->dq_smem_bytes = 0;
    if (!spec->deterministic) {
        return;
    }
    plan->slice_n = plan->block_n < 64 ? plan->block_n : 64;
    while (plan->slice_n > MMA_ROWS &&
           (dq_registers(spec, plan) > MOST_REGISTERS || dq_smem_bytes(spec, plan) > arch->smem_block)) {
        plan->slice_n /= 2;
    }
    plan->dq_threads = plan->block_m / MMA_ROWS * 32;
    plan->dq_smem_bytes = (int32_t)dq_smem_bytes(spec, plan);
    sbuf_addf(reasons, "reason: slice_n %d: keys a tile of the second kernel, %d bytes of shared memory\n",
              plan->slice_n, plan->dq_smem_bytes);
}

static const char *refusal(const gdpa_spec *spec)
{
    (void)spec;
    return NULL;
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    const struct arch_row *arch = arch_find(spec->arch);
    plan->stages = FEWEST_STAGES;
    for (size_t i = 0; i < sizeof(ladder) / sizeof(ladder[0]); ++i) {
        plan->block_m = ladder[i].block_m;
        plan->block_n = ladder[i].block_n;
        plan->warps = ladder[i].warps;
        plan->threads = ladder[i].warps * 32;
        plan->column_parts = ladder[i].column_parts;
        plan->min_blocks = ladder[i].min_blocks;
        plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
        if (rung_fits(spec, plan, arch, reasons)) {
            plan_choose_second(spec, plan, arch, reasons);
            return GDPA_OK;
        }
    }
    return fail(why, GDPA_E_UNSUPPORTED,
                "no tile of head_dim %d and head_dim_v %d fits the %d bytes of shared memory of %s", spec->head_dim,
                spec->head_dim_v, arch->smem_block, arch->target);
}

const struct plan_family plan_bwd_portable = {
    .pass = GDPA_PASS_BACKWARD,
    .number = KERNEL_FAMILY_PORTABLE,
    .name = "portable",
    .entry = "bwd_portable.cuh",
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
