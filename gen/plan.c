/*
 * Plans of all families: choice of the family, checks that hold for each of them, printing.
 */
#include "gen/plan.h"

#include <string.h>

#include "gen/fail.h"
#include "gen/plan_family.h"

enum { MMA_ROWS = 16, WARP_THREADS = 32, LARGEST_TILE = 1024, LARGEST_BLOCK = 1024 };

/* Of each pass the fastest first; its last one runs everything. */
static const struct plan_family *const families[] = {
    &plan_short,     &plan_stream,    &plan_sm90,     &plan_portable,
    &plan_bwd_whole, &plan_bwd_pairs, &plan_bwd_sm90, &plan_bwd_portable,
};
enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]) };

static const struct plan_family *family_find(int32_t pass, int32_t number)
{
    for (size_t i = 0; i < FAMILY_COUNT; ++i) {
        const struct plan_family *family = families[i];
        if (family != NULL && family->pass == pass && family->number == number) {
            return family;
        }
    }
    return NULL;
}

const char *plan_family_name(int32_t family)
{
    const struct plan_family *found = family_find(GDPA_PASS_FORWARD, family);
    found = found != NULL ? found : family_find(GDPA_PASS_BACKWARD, family);
    return found != NULL ? found->name : NULL;
}

bool plan_is_hopper(const struct kernel_plan *plan)
{
    return plan->family == KERNEL_FAMILY_SM90 || plan_has_all_keys(plan);
}

bool plan_has_all_keys(const struct kernel_plan *plan)
{
    return plan->family == KERNEL_FAMILY_WHOLE || plan->family == KERNEL_FAMILY_PAIRS;
}

bool plan_stores_queries(const gdpa_spec *normalised, const struct kernel_plan *plan)
{
    enum { BOX_COLUMNS = 64 };
    const bool divided = normalised->head_dim <= BOX_COLUMNS && normalised->head_dim_v > BOX_COLUMNS;
    return plan_has_all_keys(plan) && normalised->out_dtype != GDPA_DTYPE_FP32 && !divided;
}

int32_t plan_tile_keys(const struct kernel_plan *plan)
{
    return plan->cluster > 1 ? plan->cluster * plan->block_n : plan->block_n;
}

const char *plan_family_template(int32_t pass, int32_t family)
{
    const struct plan_family *found = family_find(pass, family);
    return found != NULL ? found->entry : NULL;
}

int32_t plan_padded_dim(int32_t dim)
{
    return (dim + 31) / 32 * 32;
}

int64_t plan_smem_bytes(const gdpa_spec *normalised, const struct kernel_plan *plan)
{
    const struct plan_family *family = family_find(normalised->pass, plan->family);
    return family != NULL ? family->smem_bytes(normalised, plan) : 0;
}

int32_t plan_second_rows(const struct kernel_plan *plan)
{
    return plan->dq_rows > 0 ? plan->dq_rows : plan->block_m;
}

int32_t plan_registers(const gdpa_spec *normalised, const struct kernel_plan *plan)
{
    const struct plan_family *family = family_find(normalised->pass, plan->family);
    return family != NULL ? family->registers(normalised, plan) : 0;
}

static gdpa_status arch_of(const gdpa_spec *spec, const struct arch_row **arch, struct sbuf *why)
{
    *arch = arch_find(spec->arch);
    return *arch != NULL ? GDPA_OK : fail(why, GDPA_E_ARGUMENT, "arch is %d: a plan needs that of a GPU", spec->arch);
}

/* The first that has a kernel for the spec; why those before it have none goes to the reasons. */
static const struct plan_family *fastest_family(const gdpa_spec *spec, struct sbuf *reasons)
{
    for (size_t i = 0; i < FAMILY_COUNT; ++i) {
        if (families[i]->pass != spec->pass) {
            continue;
        }
        const char *refusal = families[i]->refusal(spec);
        if (refusal == NULL && families[i]->by_request != NULL) {
            refusal = spec->schedule == GDPA_SCHEDULE_AUTO ? families[i]->by_request
                                                           : "the spec names a schedule, and it has none";
        }
        if (refusal == NULL) {
            return families[i];
        }
        sbuf_addf(reasons, "reason: not family %s: %s\n", families[i]->name, refusal);
    }
    return spec->pass == GDPA_PASS_BACKWARD ? &plan_bwd_portable : &plan_portable;
}

int32_t plan_auto_family(const gdpa_spec *spec)
{
    return fastest_family(spec, NULL)->number;
}

int32_t plan_family_for(const gdpa_spec *spec, const struct plan_lengths *lengths)
{
    const bool open = (spec->family == GDPA_FAMILY_DEFAULT || spec->family == GDPA_FAMILY_AUTO) &&
                      (spec->schedule == GDPA_SCHEDULE_DEFAULT || spec->schedule == GDPA_SCHEDULE_AUTO);
    const int32_t pass = spec->pass == GDPA_PASS_BACKWARD ? GDPA_PASS_BACKWARD : GDPA_PASS_FORWARD;
    for (size_t i = 0; i < FAMILY_COUNT && open; ++i) {
        const struct plan_family *family = families[i];
        if (family->pass == pass && family->suits != NULL && family->suits(spec, lengths) &&
            family->refusal(spec) == NULL) {
            return family->number;
        }
    }
    return GDPA_FAMILY_AUTO;
}

gdpa_status plan_check_pass(const gdpa_spec *normalised, struct sbuf *why)
{
    if (normalised->family != GDPA_FAMILY_DEFAULT && normalised->family != GDPA_FAMILY_AUTO &&
        family_find(normalised->pass, normalised->family) == NULL) {
        return fail(why, GDPA_E_UNSUPPORTED, "family %s has no kernels for the %s; leave family out, or take portable",
                    plan_family_name(normalised->family),
                    normalised->pass == GDPA_PASS_BACKWARD ? "backward" : "forward");
    }
    return GDPA_OK;
}

static gdpa_status choose_family(const gdpa_spec *spec, const struct plan_family **family, struct sbuf *reasons,
                                 struct sbuf *why)
{
    TRY(plan_check_pass(spec, why));
    bool is_auto = spec->family == GDPA_FAMILY_AUTO;
    *family = is_auto ? fastest_family(spec, reasons) : family_find(spec->pass, spec->family);
    const char *refusal = (*family)->refusal(spec);
    if (refusal != NULL) {
        return fail(why, GDPA_E_UNSUPPORTED, "family %s cannot run this: %s; leave family out, or take portable",
                    (*family)->name, refusal);
    }
    sbuf_addf(reasons, "reason: family %s: %s\n", (*family)->name, is_auto ? "the fastest that is left" : "asked for");
    return GDPA_OK;
}

/* What blocks do with the schedule that is left when the spec is normalised. */
static const char *schedule_reason(const gdpa_spec *spec, int32_t family)
{
    if (family == KERNEL_FAMILY_SHORT || family == KERNEL_FAMILY_STREAM) {
        return "auto: sequences and heads in their order, dealt out by the hardware as SMs become free; asking for "
               "another one changes nothing";
    }
    if (family != KERNEL_FAMILY_SM90) {
        return "auto: a block a tile, dealt out by the hardware as SMs become free; asking for another one changes "
               "nothing";
    }
    switch (spec->schedule) {
    case GDPA_SCHEDULE_STATIC:
        return "static: asked for; tiles in the order of their sequences, dealt out in turn";
    case GDPA_SCHEDULE_ZIGZAG:
        return "zigzag: asked for; costliest tiles first by a schedule on the device, dealt out there and back";
    case GDPA_SCHEDULE_DYNAMIC:
        return "dynamic: asked for; costliest tiles first by a schedule on the device, each to the block that is free";
    default:
        return spec->layout_q == GDPA_LAYOUT_JAGGED && !spec_bounds_left(spec) && !spec_bounds_right(spec)
                   ? "auto: pieces of equal cost where lengths are uneven and L2 holds the keys, else dealt out in turn"
                   : "auto: tiles in the order of their sequences, dealt out in turn";
    }
}

gdpa_status plan_make(const gdpa_spec *normalised, struct kernel_plan *plan, struct sbuf *reasons, struct sbuf *why)
{
    const struct arch_row *arch;
    TRY(arch_of(normalised, &arch, why));
    struct kernel_plan made = {0};
    const struct plan_family *family;
    TRY(choose_family(normalised, &family, reasons, why));
    made.family = family->number;
    made.cluster = family->cluster;
    if (normalised->pass == GDPA_PASS_FORWARD || spec_is_listed(normalised)) {
        sbuf_addf(reasons, "reason: schedule %s\n", schedule_reason(normalised, made.family));
    }
    TRY(family->make(normalised, &made, reasons, why));
    TRY(plan_check(normalised, &made, why));
    *plan = made;
    return GDPA_OK;
}

/* One field of a plan within its range and a multiple of its step. */
static gdpa_status check_field(const char *name, int32_t value, int32_t lowest, int32_t highest, int32_t step,
                               struct sbuf *why)
{
    if (value < lowest || value > highest || value % step != 0) {
        return fail(why, GDPA_E_ARGUMENT, "%s of the plan is %d; legal are multiples of %d from %d to %d", name, value,
                    step, lowest, highest);
    }
    return GDPA_OK;
}

static gdpa_status check_tiles(const struct kernel_plan *plan, struct sbuf *why)
{
    TRY(check_field("block_m", plan->block_m, MMA_ROWS, LARGEST_TILE, MMA_ROWS, why));
    TRY(check_field("block_n", plan->block_n, MMA_ROWS, LARGEST_TILE, MMA_ROWS, why));
    TRY(check_field("slice_n", plan->slice_n, MMA_ROWS, plan->block_n, MMA_ROWS, why));
    TRY(check_field("warps", plan->warps, 1, LARGEST_BLOCK / WARP_THREADS, 1, why));
    TRY(check_field("q_in_registers", plan->q_in_registers, 0, 1, 1, why));
    TRY(check_field("min_blocks", plan->min_blocks, 1, 32, 1, why));
    if (plan->block_n % plan->slice_n != 0) {
        return fail(why, GDPA_E_ARGUMENT, "slice_n of the plan is %d and does not divide block_n, which is %d",
                    plan->slice_n, plan->block_n);
    }
    if (plan->threads != plan->warps * WARP_THREADS) {
        return fail(why, GDPA_E_ARGUMENT, "threads of the plan is %d; %d warps have %d", plan->threads, plan->warps,
                    plan->warps * WARP_THREADS);
    }
    return GDPA_OK;
}

static gdpa_status check_resources(const gdpa_spec *spec, const struct kernel_plan *plan, const struct arch_row *arch,
                                   struct sbuf *why)
{
    int64_t smem = plan_smem_bytes(spec, plan);
    if (plan->smem_bytes != smem) {
        return fail(why, GDPA_E_ARGUMENT, "smem_bytes of the plan is %d; its tiles take %lld", plan->smem_bytes,
                    (long long)smem);
    }
    if (smem > arch->smem_block) {
        return fail(why, GDPA_E_ARGUMENT, "the plan takes %lld bytes of shared memory a block; %s has %d",
                    (long long)smem, arch->target, arch->smem_block);
    }
    int64_t resident = plan->min_blocks * (smem + SMEM_RESERVED_BYTES);
    if (resident > arch->smem_sm) {
        return fail(why, GDPA_E_ARGUMENT, "the plan takes %lld bytes of shared memory an SM for %d blocks; %s has %d",
                    (long long)resident, plan->min_blocks, arch->target, arch->smem_sm);
    }
    if (plan->min_blocks * plan->warps > arch->warps_sm) {
        return fail(why, GDPA_E_ARGUMENT, "the plan has %d warps an SM; %s holds %d", plan->min_blocks * plan->warps,
                    arch->target, arch->warps_sm);
    }
    return GDPA_OK;
}

static int32_t at_most(int32_t value, int32_t most)
{
    return value < most ? value : most;
}

struct plan_residents plan_fill_sm(struct kernel_plan *plan, int32_t registers, const struct arch_row *arch,
                                   int32_t most_warps)
{
    enum { MOST_REGISTERS = 255, REGISTERS_STEP = 8, SM_REGISTERS = 65536 };
    struct plan_residents residents = {.registers = at_most(registers, MOST_REGISTERS)};
    const int32_t allocated = (residents.registers + REGISTERS_STEP - 1) / REGISTERS_STEP * REGISTERS_STEP;
    residents.by_registers = SM_REGISTERS / (allocated * plan->threads);
    residents.by_memory = arch->smem_sm / (plan->smem_bytes + SMEM_RESERVED_BYTES);
    plan->min_blocks = at_most(at_most(residents.by_registers, residents.by_memory), most_warps / plan->warps);
    return residents;
}

gdpa_status plan_check(const gdpa_spec *normalised, const struct kernel_plan *plan, struct sbuf *why)
{
    const struct arch_row *arch;
    TRY(arch_of(normalised, &arch, why));
    const struct plan_family *family = family_find(normalised->pass, plan->family);
    if (family == NULL) {
        return fail(why, GDPA_E_ARGUMENT,
                    "family of the plan is %d; legal are portable (%d), sm90 (%d), forward only short (%d) and stream "
                    "(%d), backward only whole (%d) and pairs (%d)",
                    plan->family, KERNEL_FAMILY_PORTABLE, KERNEL_FAMILY_SM90, KERNEL_FAMILY_SHORT, KERNEL_FAMILY_STREAM,
                    KERNEL_FAMILY_WHOLE, KERNEL_FAMILY_PAIRS);
    }
    const char *refusal = family->refusal(normalised);
    if (refusal != NULL) {
        return fail(why, GDPA_E_ARGUMENT, "family of the plan is %s, which cannot run this: %s", family->name, refusal);
    }
    TRY(check_tiles(plan, why));
    if (plan->cluster != family->cluster) {
        return fail(why, GDPA_E_ARGUMENT, "cluster of the plan is %d; that of family %s is %d", plan->cluster,
                    family->name, family->cluster);
    }
    TRY(family->check(normalised, plan, why));
    return check_resources(normalised, plan, arch, why);
}

static const struct {
    const char *name;
    size_t offset;
    bool always; /* else where it is not 0 */
} plan_fields[] = {
#define PLAN_FIELD(field) {#field, offsetof(struct kernel_plan, field), true},
#define PASS_FIELD(field) {#field, offsetof(struct kernel_plan, field), false},
#include "gen/plan_fields.def"
#undef PLAN_FIELD
};

static void print_fields(const struct kernel_plan *plan, const char *before, const char *between, struct sbuf *text)
{
    for (size_t i = 0; i < sizeof(plan_fields) / sizeof(plan_fields[0]); ++i) {
        int32_t value;
        memcpy(&value, (const unsigned char *)plan + plan_fields[i].offset, sizeof(value));
        if (plan_fields[i].always || value != 0) {
            sbuf_addf(text, "%s%s%s%d", before, plan_fields[i].name, between, value);
        }
    }
}

void plan_print_line(const struct kernel_plan *plan, struct sbuf *text)
{
    const char *family = plan_family_name(plan->family);
    sbuf_addstr(text, family != NULL ? family : "unknown");
    print_fields(plan, " ", "=", text);
}

gdpa_status plan_print(const gdpa_spec *normalised, struct sbuf *text, struct sbuf *why)
{
    struct kernel_plan plan;
    struct sbuf reasons;
    sbuf_init(&reasons, (size_t)1 << 16);
    gdpa_status status = plan_make(normalised, &plan, &reasons, why);
    if (status == GDPA_OK && reasons.overflow) {
        status = fail(why, GDPA_E_MEMORY, "out of memory for the reasons of a plan");
    }
    if (status == GDPA_OK) {
        sbuf_addf(text, "family: %s", plan_family_name(plan.family));
        print_fields(&plan, "\n", ": ", text);
        sbuf_addf(text, "\n%s", reasons.text);
    }
    sbuf_deinit(&reasons);
    return status;
}
