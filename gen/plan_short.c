/*
 * Plans of the short family: mma.sync as in the portable one, but a warp works alone on a (sequence, head) after the other. For
 * sequences far shorter than a tile of the other families; right for any length. Forward only, sm_80 and later.
 *
 * Shared memory of each warp, 2 bytes an element, columns padded by plan_padded_dim:
 *
 *     Q     [block_m, head_dim]
 *     K     [block_n, head_dim]
 *     V     [block_n, head_dim_v]; the output is staged there
 */
#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    ELEMENT_BYTES = 2,
    ALIGNMENT = 1024, /* of the part of a warp */
    ROWS = 32,
    ROWS_OF_WIDE = 16, /* beyond head_dim 96: what a warp takes decides how many of them there are */
    WIDE = 96,
    KEYS = 32,
    MOST_WARPS = 16,   /* of an SM; more of them gain nothing */
    LARGEST_DIM = 128, /* beyond it the output of 32 rows does not fit the registers */
    /* The step at hand, the one ahead, addresses, fragments and temporaries of the activation. */
    OTHER_REGISTERS = 32,
    OTHER_REGISTERS_OF_WIDE = 80, /* ptxas keeps the addresses of more columns */
};

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t dim = plan_padded_dim(spec->head_dim);
    int64_t dim_v = plan_padded_dim(spec->head_dim_v);
    int64_t warp = ((plan->block_m + plan->block_n) * dim + plan->block_n * dim_v) * ELEMENT_BYTES;
    return (warp + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT * plan->warps;
}

/* A thread holds 1/32 of the output and of the scores of 16 keys in fp32, and of P as pairs of 16 bits. */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int32_t output = plan->block_m * plan_padded_dim(spec->head_dim_v) / 32;
    int32_t scores = plan->block_m * plan->slice_n / 32;
    int32_t weights = plan->block_m * plan->block_n / 64;
    bool wide = plan->block_m < ROWS;
    return output + scores + weights + (wide ? OTHER_REGISTERS_OF_WIDE : OTHER_REGISTERS);
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    (void)spec;
    if ((plan->query_stages | plan->value_columns | plan->producer_registers | plan->consumer_registers |
         plan->q_in_registers) != 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "query_stages, value_columns, producer_registers, consumer_registers or q_in_registers of the plan "
                    "is set: it belongs to another family than short");
    }
    if (plan->block_m > plan->block_n || plan->block_m > ROWS || plan->slice_n != 16 || plan->stages != 1) {
        return fail(why, GDPA_E_ARGUMENT,
                    "block_m %d, block_n %d, slice_n %d and stages %d of the plan: the short family does 16 or %d "
                    "queries, no fewer keys, 16 of them at a time, in one stage",
                    plan->block_m, plan->block_n, plan->slice_n, plan->stages, ROWS);
    }
    return GDPA_OK;
}

static const char *refusal(const gdpa_spec *spec)
{
    if (spec->unaligned != 0) {
        return "it copies 16 bytes at a time and needs aligned tensors";
    }
    if (spec->head_dim > LARGEST_DIM || spec->head_dim_v > LARGEST_DIM) {
        return "the rows of a warp fit its registers up to head_dim and head_dim_v 128 only";
    }
    return NULL;
}

static bool suits(const gdpa_spec *spec, const struct plan_lengths *lengths)
{
    (void)spec;
    return lengths->longest_q <= PLAN_FEW_KEYS && lengths->longest_k <= PLAN_FEW_KEYS;
}

/* Blocks of so many warps that an SM holds. */
static void fill_sm(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch, int32_t warps)
{
    plan->warps = warps;
    plan->threads = warps * 32;
    plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
    plan_fill_sm(plan, registers(spec, plan), arch, MOST_WARPS);
}

/* As many warps as the SM holds: their number is what hides the latency of memory. Smaller blocks may leave less of it over. */
static void choose_blocks(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons)
{
    const struct arch_row *arch = arch_find(spec->arch);
    struct kernel_plan fewer = *plan;
    fill_sm(spec, plan, arch, 4);
    fill_sm(spec, &fewer, arch, 2);
    if (fewer.min_blocks * fewer.warps > plan->min_blocks * plan->warps) {
        *plan = fewer;
    }
    sbuf_addf(reasons,
              "reason: %d warps, min_blocks %d: about %d registers a thread and %d bytes of shared memory a warp\n",
              plan->warps, plan->min_blocks, registers(spec, plan), plan->smem_bytes / plan->warps);
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    (void)why;
    plan->block_m = spec->head_dim > WIDE || spec->head_dim_v > WIDE ? ROWS_OF_WIDE : ROWS;
    plan->block_n = KEYS;
    plan->slice_n = 16;
    plan->stages = 1;
    sbuf_addf(reasons,
              "reason: block_m %d, block_n %d: of each warp; the half that a sequence leaves empty is skipped\n",
              plan->block_m, plan->block_n);
    sbuf_addstr(reasons, "reason: slice_n 16: scores of 16 keys at a time leave registers for more warps\n");
    sbuf_addstr(reasons, "reason: stages 1: the next step is copied as soon as its place is free, and the other warps "
                         "hide the rest\n");
    choose_blocks(spec, plan, reasons);
    return GDPA_OK;
}

const struct plan_family plan_short = {
    .pass = GDPA_PASS_FORWARD,
    .number = KERNEL_FAMILY_SHORT,
    .name = "short",
    .entry = "fwd_short.cuh",
    .by_request =
        "a spec does not say that sequences are short; gdpa_forward takes it where the lengths that it is given "
        "do",
    .suits = suits,
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
