/*
 * Plans of the stream family: mma.sync as in the portable one, but the keys and values of a (sequence, head) stay in shared memory while its
 * queries pass by. For few keys and many queries; right for any lengths. Forward only, sm_80 and later.
 *
 * Shared memory, 2 bytes an element, columns padded by plan_padded_dim:
 *
 *     Q     [slice_m, head_dim] * 2 for each warp; the output is staged there, so as wide as head_dim_v if that is more
 *     K     [block_n, head_dim]
 *     V     [block_n, head_dim_v]
 *     32 bytes that are seldom read
 */
#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    ELEMENT_BYTES = 2,
    ALIGNMENT = 1024,
    PARKING = 32, /* bytes behind V, for what is seldom read */
    QUERY_SLOTS = 2,
    ROWS = 1024,
    KEYS = PLAN_FEW_KEYS,
    SLICE = 16,
    WARPS = 4,
    MOST_WARPS = 12, /* of an SM: as many as the registers allow at head dim 64 and 128 */
    LARGEST_DIM = 128,
    NARROW = 64, /* head dims for which 32 queries of a warp fit the registers */
    /* Addresses, loop counters, K and V fragments and temporaries of the activation. */
    OTHER_REGISTERS = 28,
    FEW_QUERIES = 64,
    FEWEST_PAIRS = 512,
};

static bool is_narrow(const gdpa_spec *spec)
{
    return spec->head_dim <= NARROW && spec->head_dim_v <= NARROW;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int64_t dim = plan_padded_dim(spec->head_dim);
    int64_t dim_v = plan_padded_dim(spec->head_dim_v);
    int64_t slot = round_up(plan->slice_m * (dim_v > dim ? dim_v : dim) * ELEMENT_BYTES);
    return slot * QUERY_SLOTS * plan->warps + round_up(plan->block_n * dim * ELEMENT_BYTES) +
           round_up(plan->block_n * dim_v * ELEMENT_BYTES) + PARKING;
}

/* A thread of a warp holds 1/32 of the output and the scores in fp32, of Q and of the probabilities of 16 keys as pairs of 16 bits. */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int32_t rows = plan->slice_m;
    return rows * plan_padded_dim(spec->head_dim_v) / 32 + rows * plan->slice_n / 32 +
           rows * plan_padded_dim(spec->head_dim) / 64 + rows * 16 / 64 + OTHER_REGISTERS;
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    (void)spec;
    if ((plan->query_stages | plan->value_columns | plan->producer_registers | plan->consumer_registers) != 0) {
        return fail(why, GDPA_E_ARGUMENT,
                    "query_stages, value_columns, producer_registers or consumer_registers of the plan is set: it "
                    "belongs to another family than stream");
    }
    if ((plan->slice_m != 16 && plan->slice_m != 32) || plan->stages != 1 || plan->q_in_registers != 1) {
        return fail(why, GDPA_E_ARGUMENT,
                    "slice_m %d, stages %d and q_in_registers %d of the plan: the stream family holds 16 or 32 queries "
                    "a warp in registers, and one tile of keys",
                    plan->slice_m, plan->stages, plan->q_in_registers);
    }
    return GDPA_OK;
}

static const char *refusal(const gdpa_spec *spec)
{
    if (spec->unaligned != 0) {
        return "it copies 16 bytes at a time and needs aligned tensors";
    }
    if (spec->head_dim > LARGEST_DIM || spec->head_dim_v > LARGEST_DIM) {
        return "queries and output of a warp fit its registers up to head_dim and head_dim_v 128 only";
    }
    return NULL;
}

/* As measured against the sm90 family; with few pairs there are too few blocks. */
static bool suits(const gdpa_spec *spec, const struct plan_lengths *lengths)
{
    (void)spec;
    return lengths->longest_q > FEW_QUERIES && lengths->longest_k <= KEYS && lengths->pairs >= FEWEST_PAIRS;
}

static void choose_blocks(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                          struct sbuf *reasons)
{
    const struct plan_residents residents = plan_fill_sm(plan, registers(spec, plan), arch, MOST_WARPS);
    sbuf_addf(reasons, "reason: min_blocks %d: registers allow %d (about %d a thread), shared memory %d\n",
              plan->min_blocks, residents.by_registers, residents.registers, residents.by_memory);
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    (void)why;
    plan->block_m = ROWS;
    plan->block_n = KEYS;
    plan->slice_n = SLICE;
    plan->slice_m = is_narrow(spec) ? 32 : 16;
    plan->warps = WARPS;
    plan->threads = WARPS * 32;
    plan->stages = 1;
    plan->q_in_registers = 1;
    plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
    sbuf_addf(reasons, "reason: block_m %d: rows that use the keys and values which a block loads\n", plan->block_m);
    sbuf_addf(reasons, "reason: block_n %d: keys that stay in shared memory\n", plan->block_n);
    sbuf_addf(reasons, "reason: slice_m %d: the queries and the output of a warp fit its registers\n", plan->slice_m);
    choose_blocks(spec, plan, arch_find(spec->arch), reasons);
    return GDPA_OK;
}

const struct plan_family plan_stream = {
    .pass = GDPA_PASS_FORWARD,
    .number = KERNEL_FAMILY_STREAM,
    .name = "stream",
    .entry = "fwd_stream.cuh",
    .by_request = "a spec does not say that keys are few; gdpa_forward takes it where the lengths that it is given do",
    .suits = suits,
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
