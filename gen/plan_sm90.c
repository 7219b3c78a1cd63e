/*
 * Plans of the sm90 family: wgmma on tiles in shared memory, copied by TMA; warp-specialised and persistent. sm_90a only.
 *
 * Shared memory, 2 bytes an element, columns padded to chunks of 64 (templates/work_sm90.cuh has the map):
 *
 *     Q     [block_m, head_dim] * query_stages; the output is staged there, so as wide as head_dim_v if that is more
 *     K     [block_n, head_dim] * stages
 *     V     [block_n, head_dim_v] * stages
 *     messages and barriers
 */
#include "gen/fail.h"
#include "gen/plan_family.h"

enum {
    CHUNK_COLUMNS = 64,
    CHUNK_ROW_BYTES = 128,
    WARPGROUP_ROWS = 64,
    WARPGROUP_THREADS = 128,
    WARPGROUP_WARPS = 4,
    MESSAGE_BYTES = 64,
    BARRIER_BYTES = 8,
    MOST_STAGES = 4,
    SM_REGISTERS = 65536,
    FEWEST_REGISTERS = 24,
    MOST_REGISTERS = 256,
    /*
     * Addresses, loop state and temporaries of the activation in a consumer. Where there are more registers, ptxas also keeps
     * descriptors in them, and spills something else rather than compute those anew.
     */
    OTHER_REGISTERS = 24,
    OTHER_REGISTERS_OF_MANY = 64,
};

static const int32_t widths[] = {
#define WGMMA_WIDTH(columns) columns,
#include "gen/wgmma_widths.def"
#undef WGMMA_WIDTH
};

int32_t plan_wgmma_width(int32_t columns)
{
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); ++i) {
        if (widths[i] >= columns) {
            return widths[i];
        }
    }
    return 0;
}

bool plan_is_wgmma_width(int32_t columns)
{
    return columns > 0 && plan_wgmma_width(columns) == columns;
}

static int32_t chunks(int32_t columns)
{
    return (columns + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
}

static int64_t smem_bytes(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    int32_t depth = chunks(spec->head_dim);
    int32_t values = chunks(spec->head_dim_v);
    int64_t query_tile = (int64_t)(depth > values ? depth : values) * plan->block_m * CHUNK_ROW_BYTES;
    int64_t key_tiles = (int64_t)(depth + values) * plan->block_n * CHUNK_ROW_BYTES;
    int64_t barriers = 4 * plan->query_stages + 5 * plan->stages;
    return plan->query_stages * (query_tile + MESSAGE_BYTES) + plan->stages * key_tiles + barriers * BARRIER_BYTES;
}

/* Of a consumer thread: the scores and the output in fp32, P as pairs of 16 bits in place of scores. */
static int32_t registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    (void)spec;
    bool many = plan->consumer_registers > SM_REGISTERS / 384;
    return plan->block_n / 2 + plan->value_columns / 2 + (many ? OTHER_REGISTERS_OF_MANY : OTHER_REGISTERS);
}

/* What a block has at entry: ptxas gives every thread the same, in steps of 8, and setmaxnreg only moves them. */
static int32_t entry_registers(int32_t threads)
{
    return SM_REGISTERS / threads / 8 * 8;
}

/* setmaxnreg takes multiples of 8 from 24 to 256, and what the block has must do for all of its warpgroups. */
static gdpa_status check_registers(const struct kernel_plan *plan, int32_t consumers, struct sbuf *why)
{
    int32_t held = plan->producer_registers + consumers * plan->consumer_registers;
    int32_t most = entry_registers(plan->threads) * (consumers + 1);
    bool legal = plan->producer_registers >= FEWEST_REGISTERS && plan->consumer_registers >= FEWEST_REGISTERS &&
                 plan->producer_registers % 8 == 0 && plan->consumer_registers % 8 == 0;
    if (!legal || plan->consumer_registers > MOST_REGISTERS || held > most) {
        return fail(why, GDPA_E_ARGUMENT,
                    "producer_registers %d and consumer_registers %d of the plan are not multiples of 8 from %d to %d "
                    "whose sum over %d warpgroups is at most %d",
                    plan->producer_registers, plan->consumer_registers, FEWEST_REGISTERS, MOST_REGISTERS, consumers + 1,
                    most);
    }
    return GDPA_OK;
}

static gdpa_status check(const gdpa_spec *spec, const struct kernel_plan *plan, struct sbuf *why)
{
    int32_t consumers = plan->warps / WARPGROUP_WARPS - 1;
    if (plan->min_blocks != 1) {
        return fail(why, GDPA_E_ARGUMENT, "min_blocks of the plan is %d; family sm90 has 1", plan->min_blocks);
    }
    if (plan->warps % WARPGROUP_WARPS != 0 || consumers < 1 || plan->block_m != consumers * WARPGROUP_ROWS) {
        return fail(why, GDPA_E_ARGUMENT,
                    "block_m of the plan is %d for %d warps; 4 warps feed the others, of which each 4 own 64 rows",
                    plan->block_m, plan->warps);
    }
    if (plan->stages < 2 || plan->stages > MOST_STAGES || plan->query_stages < 1 || plan->query_stages > 2) {
        return fail(why, GDPA_E_ARGUMENT, "the plan has %d stages and %d query_stages; legal are 2 to %d and 1 or 2",
                    plan->stages, plan->query_stages, MOST_STAGES);
    }
    if (!plan_is_wgmma_width(plan->block_n) || !plan_is_wgmma_width(plan->value_columns) ||
        plan->value_columns < spec->head_dim_v) {
        return fail(why, GDPA_E_ARGUMENT,
                    "block_n %d or value_columns %d of the plan is no width of wgmma that covers head_dim_v %d",
                    plan->block_n, plan->value_columns, spec->head_dim_v);
    }
    return check_registers(plan, consumers, why);
}

/*
 * Tiles, best first, as measured (docs/kernels.md): three consumer warpgroups cover each other's activations, and a tile of
 * 128 keys is the most their registers hold; wider outputs take two warpgroups with more registers.
 */
static const struct rung {
    int32_t consumers, block_n, stages, query_stages;
} ladder[] = {
    {3, 128, 2, 2}, {3, 128, 2, 1}, {3, 96, 2, 1}, {2, 128, 2, 1}, {2, 96, 2, 1}, {2, 64, 2, 1},
};

/* Heads whose products are over sooner than the activation of the scores. */
static bool is_narrow(const gdpa_spec *spec)
{
    return spec->head_dim <= CHUNK_COLUMNS && spec->head_dim_v <= CHUNK_COLUMNS;
}

/* Whose activation is over before the product of a slice. */
static bool is_cheap(int32_t activation)
{
    return activation == GDPA_ACTIVATION_IDENTITY || activation == GDPA_ACTIVATION_RELU ||
           activation == GDPA_ACTIVATION_RELU_SQUARE || activation == GDPA_ACTIVATION_SQUARE;
}

/* As measured (docs/kernels.md): with dear activations and two query slots it is better that consumers stay close together. */
bool plan_values_first(const gdpa_spec *normalised, const struct kernel_plan *plan)
{
    return plan->family == KERNEL_FAMILY_SM90 && (is_cheap(normalised->activation) || plan->query_stages == 1);
}

/*
 * Keys of a slice: the product of a slice runs under the activation of the next one. Activations that are over before the product
 * want few, long products; dear ones a finer grain (docs/kernels.md).
 */
static int32_t slice_for(const gdpa_spec *spec, int32_t block_n, struct sbuf *reasons)
{
    int32_t slice = is_cheap(spec->activation) ? 64 : 32;
    switch (spec->activation) {
    case GDPA_ACTIVATION_SILU: /* more constants than the others: a shorter slice leaves them registers */
        slice = 16;
        break;
    case GDPA_ACTIVATION_FAST_SILU:
    case GDPA_ACTIVATION_FAST_GELU:
    case GDPA_ACTIVATION_GELU_TANH:
        slice = is_narrow(spec) ? 16 : 32;
        break;
    }
    while (block_n % slice != 0) {
        slice /= 2;
    }
    sbuf_addf(reasons, "reason: slice_n %d: as cheap as %s is\n", slice, activation_find(spec->activation)->name);
    return slice;
}

/* Fragments of Q take registers that only an activation does without which is cheap, or in 16 bits. */
static int32_t keep_queries(const gdpa_spec *spec, struct sbuf *reasons)
{
    const bool leaves_registers = is_cheap(spec->activation) || spec->activation == GDPA_ACTIVATION_FAST_GELU_BF16;
    const bool kept = is_narrow(spec) && leaves_registers;
    sbuf_addf(reasons, "reason: q_in_registers %d: head_dim %d, and %s\n", kept, spec->head_dim,
              activation_find(spec->activation)->name);
    return kept;
}

/* Registers of producer and consumer threads by number of consumers. */
static void share_registers(struct kernel_plan *plan, int32_t consumers)
{
    plan->producer_registers = consumers == 3 ? 32 : 40;
    plan->consumer_registers = consumers == 3 ? 160 : 232;
}

static bool rung_fits(const gdpa_spec *spec, struct kernel_plan *plan, const struct arch_row *arch,
                      struct sbuf *reasons)
{
    int32_t needed = registers(spec, plan);
    bool fits = plan->smem_bytes <= arch->smem_block && needed <= plan->consumer_registers;
    sbuf_addf(reasons,
              "reason: %sblock_m %d, block_n %d, stages %d, query_stages %d: %d bytes of shared memory of %d, about %d "
              "registers of %d\n",
              fits ? "" : "not ", plan->block_m, plan->block_n, plan->stages, plan->query_stages, plan->smem_bytes,
              arch->smem_block, needed, plan->consumer_registers);
    return fits;
}

static const char *refusal(const gdpa_spec *spec)
{
    if (spec->arch != 90) {
        return "wgmma is on sm_90a only";
    }
    return spec->unaligned ? "the copy engine needs aligned tensors" : NULL;
}

static gdpa_status make(const gdpa_spec *spec, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    const struct arch_row *arch = arch_find(spec->arch);
    plan->value_columns = plan_wgmma_width(spec->head_dim_v);
    plan->min_blocks = 1;
    for (size_t i = 0; i < sizeof(ladder) / sizeof(ladder[0]); ++i) {
        plan->block_m = ladder[i].consumers * WARPGROUP_ROWS;
        plan->warps = (ladder[i].consumers + 1) * WARPGROUP_WARPS;
        plan->threads = (ladder[i].consumers + 1) * WARPGROUP_THREADS;
        plan->block_n = ladder[i].block_n;
        plan->stages = ladder[i].stages;
        plan->query_stages = ladder[i].query_stages;
        share_registers(plan, ladder[i].consumers);
        plan->smem_bytes = (int32_t)smem_bytes(spec, plan);
        plan->slice_n = plan->block_n;
        if (rung_fits(spec, plan, arch, reasons)) {
            plan->slice_n = slice_for(spec, plan->block_n, reasons);
            plan->q_in_registers = keep_queries(spec, reasons);
            return GDPA_OK;
        }
    }
    return fail(why, GDPA_E_UNSUPPORTED, "no tile of head_dim %d and head_dim_v %d fits %s; take family portable",
                spec->head_dim, spec->head_dim_v, arch->target);
}

const struct plan_family plan_sm90 = {
    .pass = GDPA_PASS_FORWARD,
    .number = KERNEL_FAMILY_SM90,
    .name = "sm90",
    .entry = "fwd_sm90.cuh",
    .refusal = refusal,
    .make = make,
    .check = check,
    .smem_bytes = smem_bytes,
    .registers = registers,
};
