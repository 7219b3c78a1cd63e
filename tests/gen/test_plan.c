/*
 * plan: every spec on every architecture has a plan that fits; plans from elsewhere are checked field by field.
 */
#include "gen/plan.h"

#include "gen/plan_family.h"
#include "gen/tables.h"
#include "tests/gen/gen_test.h"
#include "tests/gen/plan_changes.h"

/* What the threads of a block hold together while they run. */
static int32_t block_registers(const gdpa_spec *spec, const struct kernel_plan *plan)
{
    if (plan->family == KERNEL_FAMILY_PORTABLE) {
        return plan->threads * plan_registers(spec, plan);
    }
    return 128 * plan->producer_registers + (plan->threads - 128) * plan->consumer_registers;
}

static void every_head_dim_fits_every_architecture(void **state)
{
    (void)state;
    struct choice_table archs = choice_table(OPTION_KIND_CHOICE_ARCH);
    gdpa_spec spec = spec_of("d=8 act=silu");
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t a = 0; a < archs.count; ++a) {
        const struct arch_row *arch = arch_find(archs.rows[a].number);
        for (spec.head_dim = 8; spec.head_dim <= 256; spec.head_dim += 8) {
            for (spec.head_dim_v = 8; spec.head_dim_v <= 256; spec.head_dim_v += 8) {
                for (spec.out_dtype = GDPA_DTYPE_BF16; spec.out_dtype <= GDPA_DTYPE_FP32; spec.out_dtype += 2) {
                    spec.arch = arch->number;
                    struct kernel_plan plan;
                    if (plan_make(&spec, &plan, NULL, &why) != GDPA_OK) {
                        fail_msg("d=%d dv=%d %s: %s", spec.head_dim, spec.head_dim_v, arch->target, why.text);
                    }
                    assert_int_equal(plan_check(&spec, &plan, &why), GDPA_OK);
                    assert_true(plan.smem_bytes <= arch->smem_block);
                    assert_true(plan.min_blocks * (plan.smem_bytes + 1024) <= arch->smem_sm);
                    assert_int_equal(plan.threads, 32 * plan.warps);
                    assert_int_equal(plan.family, arch->number == 90 ? KERNEL_FAMILY_SM90 : KERNEL_FAMILY_PORTABLE);
                    assert_true(plan_registers(&spec, &plan) <= (arch->number == 90 ? plan.consumer_registers : 255));
                    assert_true(plan.min_blocks * block_registers(&spec, &plan) <= arch->regs_sm);
                }
            }
        }
    }
    sbuf_deinit(&why);
}

static void head_dims_are_padded_to_whole_chunks(void **state)
{
    (void)state;
    static const struct {
        int32_t dim, padded;
    } cases[] = {{8, 32},  {32, 32},   {40, 64},   {64, 64},   {72, 96},
                 {96, 96}, {120, 128}, {192, 192}, {200, 224}, {256, 256}};
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        assert_int_equal(plan_padded_dim(cases[i].dim), cases[i].padded);
    }
}

static void shared_memory_is_that_of_the_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int32_t block_m, block_n, stages;
        int64_t bytes;
    } cases[] = {
        {"d=64 act=relu", 128, 64, 2, 2 * (128 * 64 + 2 * 64 * (64 + 64)) + 16},
        {"d=192 dv=128 act=relu", 64, 32, 3, 2 * (64 * 192 + 3 * 32 * (192 + 128)) + 16},
        {"d=40 dv=120 act=relu", 64, 64, 2,
         2 * (64 * 128 + 2 * 64 * (64 + 128)) + 16}, /* the output is the wider one */
        {"d=40 dv=120 act=relu out_dtype=fp32", 64, 64, 2, 2 * (64 * 128 + 2 * 64 * (64 + 128)) + 16},
        {"d=256 act=relu", 1024, 1024, 4, 2 * (1024ll * 256 + 4ll * 1024 * 512) + 16},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].spec);
        struct kernel_plan plan = {.family = KERNEL_FAMILY_PORTABLE,
                                   .block_m = cases[i].block_m,
                                   .block_n = cases[i].block_n,
                                   .stages = cases[i].stages};
        assert_true(plan_smem_bytes(&spec, &plan) == cases[i].bytes);
    }
}

static void plans_are_the_same_each_time_and_say_why(void **state)
{
    (void)state;
    static const char *const portable_fields[] = {"block_m",        "block_n", "slice_n",
                                                  "q_in_registers", "stages",  "min_blocks"};
    static const char *const sm90_fields[] = {"block_m", "block_n", "slice_n", "stages", "query_stages", "registers"};
    static const struct {
        const char *text, *start;
        const char *const (*fields)[6];
    } cases[] = {
        {"d=64 act=relu arch=80", "family: portable\nblock_m: ", &portable_fields},
        {"d=128 act=relu family=portable arch=90", "family: portable\nblock_m: ", &portable_fields},
        {"d=128 act=relu arch=90", "family: sm90\nblock_m: ", &sm90_fields},
        {"d=256 act=silu arch=90", "family: sm90\nblock_m: ", &sm90_fields},
        {"d=256 act=relu arch=86", "family: portable\nblock_m: ", &portable_fields},
        {"d=192 dv=128 act=relu arch=100", "family: portable\nblock_m: ", &portable_fields},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        struct kernel_plan one = plan_of(&spec), other = plan_of(&spec);
        assert_memory_equal(&one, &other, sizeof(one));
        struct sbuf text;
        sbuf_init(&text, 1 << 16);
        assert_int_equal(plan_print(&spec, &text, NULL), GDPA_OK);
        assert_memory_equal(text.text, cases[i].start, strlen(cases[i].start));
        const char *reasons = strstr(text.text, "\nreason: ");
        assert_non_null(reasons);
        for (size_t j = 0; j < COUNT_OF(*cases[i].fields); ++j) {
            assert_contains(reasons, (*cases[i].fields)[j]);
        }
        sbuf_deinit(&text);
    }
}

static void the_family_is_the_fastest_that_can_run_the_spec_unless_one_is_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t family;
        const char *reason;
    } cases[] = {
        {"d=64 act=relu arch=90", KERNEL_FAMILY_SM90, "reason: family sm90: the fastest"},
        {"d=64 act=relu arch=90 unaligned", KERNEL_FAMILY_PORTABLE, "reason: not family sm90: the copy engine"},
        {"d=64 act=relu arch=90 family=portable", KERNEL_FAMILY_PORTABLE, "reason: family portable: asked for"},
        {"d=64 act=relu arch=89", KERNEL_FAMILY_PORTABLE, "reason: not family sm90: wgmma is on sm_90a only"},
        {"d=64 act=relu arch=100", KERNEL_FAMILY_PORTABLE, "reason: family portable: the fastest"},
        {"d=64 act=relu arch=90", KERNEL_FAMILY_SM90, "reason: not family short: a spec does not say"},
        {"d=64 act=relu arch=90 schedule=zigzag", KERNEL_FAMILY_SM90,
         "reason: not family stream: the spec names a schedule"},
        {"d=64 act=relu arch=90 family=short", KERNEL_FAMILY_SHORT, "reason: family short: asked for"},
        {"d=256 act=relu arch=80", KERNEL_FAMILY_PORTABLE, "reason: not family short: the rows of a warp fit"},
    };
    struct sbuf reasons, why;
    sbuf_init(&reasons, 1 << 16);
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        struct kernel_plan plan;
        sbuf_reset(&reasons);
        assert_int_equal(plan_make(&spec, &plan, &reasons, &why), GDPA_OK);
        assert_int_equal(plan.family, cases[i].family);
        assert_int_equal(plan_auto_family(&spec) == plan.family, spec.family == GDPA_FAMILY_AUTO);
        assert_contains(reasons.text, cases[i].reason);
    }
    static const char *const refused[][2] = {
        {"d=64 act=relu arch=80 family=sm90", "family sm90 cannot run this: wgmma is on sm_90a only"},
        {"d=64 act=relu arch=100 family=sm90", "take portable"},
        {"d=64 act=relu arch=90 family=sm90 unaligned", "family sm90 cannot run this: the copy engine needs aligned"},
        {"d=64 act=relu arch=90 family=short unaligned", "family short cannot run this: it copies 16 bytes at a time"},
        {"d=136 act=relu arch=90 family=short", "family short cannot run this: the rows of a warp fit its registers"},
        {"d=64 act=relu arch=90 family=stream unaligned", "family stream cannot run this: it copies 16 bytes"},
        {"bwd d=64 act=relu arch=90 family=short", "family short has no kernels for the backward"},
        {"d=64 act=relu arch=90 family=whole", "family whole has no kernels for the forward"},
        {"d=128 act=relu arch=80 family=pairs", "family pairs has no kernels for the forward"},
    };
    for (size_t i = 0; i < COUNT_OF(refused); ++i) {
        gdpa_spec spec = spec_of(refused[i][0]);
        struct kernel_plan plan = {.family = 77};
        assert_int_equal(plan_make(&spec, &plan, NULL, &why), GDPA_E_UNSUPPORTED);
        assert_int_equal(plan.family, 77);
        assert_contains(why.text, refused[i][1]);
    }
    sbuf_deinit(&why);
    sbuf_deinit(&reasons);
}

static void the_line_form_names_every_field(void **state)
{
    (void)state;
    struct kernel_plan plan = {.family = KERNEL_FAMILY_SM90,
                               .block_m = 1,
                               .block_n = 2,
                               .warps = 4,
                               .stages = 6,
                               .q_in_registers = 7,
                               .slice_n = 3,
                               .threads = 5,
                               .min_blocks = 8,
                               .smem_bytes = 9,
                               .query_stages = 10,
                               .value_columns = 11,
                               .producer_registers = 12,
                               .consumer_registers = 13};
    struct sbuf text;
    sbuf_init(&text, 4096);
    plan_print_line(&plan, &text);
    assert_string_equal(text.text, "sm90 block_m=1 block_n=2 slice_n=3 warps=4 threads=5 stages=6 q_in_registers=7 "
                                   "min_blocks=8 smem_bytes=9 query_stages=10 value_columns=11 producer_registers=12 "
                                   "consumer_registers=13");
    sbuf_deinit(&text);
    /* The table of fields has all of them: a plan is nothing but those numbers. */
    size_t fields = 1;
#define PLAN_FIELD(field) fields += 1;
#include "gen/plan_fields.def"
#undef PLAN_FIELD
    assert_int_equal(sizeof(struct kernel_plan), fields * sizeof(int32_t));
}

/* Every head dim on every architecture has a portable backward, whose plan holds what the template asks for. */
static void the_backward_pass_has_plans_everywhere(void **state)
{
    (void)state;
    static const char *const archs[] = {"80", "86", "89", "90", "100", "120"};
    static const int dims[] = {8, 40, 64, 96, 128, 136, 160, 192, 256};
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t a = 0; a < COUNT_OF(archs); ++a) {
        for (size_t i = 0; i < COUNT_OF(dims) * COUNT_OF(dims) * 2; ++i) {
            char text[128];
            snprintf(text, sizeof(text), "bwd d=%d dv=%d act=gelu family=portable arch=%s%s",
                     dims[i / 2 / COUNT_OF(dims)], dims[i / 2 % COUNT_OF(dims)], archs[a],
                     i % 2 != 0 ? " deterministic" : "");
            gdpa_spec spec = spec_of(text);
            struct kernel_plan plan;
            if (plan_make(&spec, &plan, NULL, &why) != GDPA_OK) {
                fail_msg("%s: %s", text, why.text);
            }
            assert_int_equal(plan.family, KERNEL_FAMILY_PORTABLE);
            assert_int_equal(plan.smem_bytes, plan_smem_bytes(&spec, &plan));
            assert_true(plan_registers(&spec, &plan) <= 255);
            assert_true(spec.deterministic ? plan.dq_smem_bytes > 0 : plan.dq_smem_bytes == 0);
        }
    }
    sbuf_deinit(&why);
}

/* The second kernel of a deterministic backward on Hopper: registers and shared memory for its tiles, which hold all columns. */
static void a_deterministic_backward_on_hopper_has_a_second_plan(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (int dim = 8; dim <= 128; dim += 8) {
        for (int dim_v = 8; dim_v <= 128; dim_v += 8) {
            char text[128];
            snprintf(text, sizeof(text), "bwd d=%d dv=%d act=gelu deterministic arch=90", dim, dim_v);
            gdpa_spec spec = spec_of(text);
            struct kernel_plan plan = plan_of(&spec);
            assert_int_equal(plan.family, KERNEL_FAMILY_SM90);
            assert_int_equal(plan.dq_rows, (plan.dq_threads / 128 - 1) * 64);
            assert_int_equal(plan_second_rows(&plan), plan.dq_rows);
            assert_int_equal(plan.dq_keys % plan.slice_n, 0);
            assert_in_range(plan.dq_key_stages, 2, 4);
            /* What setmaxnreg gives and takes is no more than the block came with: 128 registers of each of 512 threads. */
            assert_in_range(plan.dq_consumer_registers * (plan.dq_threads / 128 - 1) + plan.dq_producer_registers, 1,
                            plan.dq_threads);
        }
    }
    gdpa_spec spec = spec_of("bwd d=128 act=gelu arch=90");
    struct kernel_plan plan = plan_of(&spec);
    assert_int_equal(plan.dq_rows, 0);
    assert_int_equal(plan_second_rows(&plan), plan.block_m);
    sbuf_deinit(&why);
}

static void second_plans_on_hopper_are_checked_field_by_field(void **state)
{
    (void)state;
    static const struct {
        int32_t rows, keys, stages, threads, smem_added;
        const char *text;
    } cases[] = {
        {192, 64, 4, 512, 0, NULL},
        {160, 64, 4, 512, 0, "dq_rows of the plan is 160"},
        {192, 64, 4, 384, 0, "dq_threads 384"},
        {192, 48, 4, 512, 0, "dq_keys of the plan is 48"},
        {192, 64, 5, 512, 0, "dq_key_stages of the plan is 5"},
        {192, 64, 1, 512, 0, "dq_key_stages of the plan is 1"},
        {192, 64, 4, 512, 8, "dq_smem_bytes of the plan is"},
        {192, 128, 4, 512, 0, "has 232448"},
    };
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = spec_of("bwd d=128 act=relu deterministic arch=90");
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        struct kernel_plan plan = plan_of(&spec);
        plan.dq_rows = cases[i].rows;
        plan.dq_keys = cases[i].keys;
        plan.dq_key_stages = cases[i].stages;
        plan.dq_threads = cases[i].threads;
        plan.dq_smem_bytes = 2 * 256 * plan.dq_rows + plan.dq_key_stages * 2 * 256 * plan.dq_keys + 2 * 64 +
                             8 * (4 + 6 * plan.dq_key_stages) + cases[i].smem_added;
        gdpa_status status = plan_check(&spec, &plan, &why);
        assert_int_equal(status, cases[i].text == NULL ? GDPA_OK : GDPA_E_ARGUMENT);
        if (cases[i].text != NULL) {
            assert_contains(why.text, cases[i].text);
        }
    }
    sbuf_deinit(&why);
}

static void plans_of_the_backward_that_no_kernel_can_run_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t block_m, block_n, warps, column_parts, stages, dq_threads, value_columns, slice_m;
        const char *text;
    } cases[] = {
        {64, 128, 8, 1, 2, 256, 64, 64, "it belongs to another kernel than the portable backward"},
        {64, 128, 8, 3, 2, 256, 0, 64, "column_parts of the plan is 3"},
        {16, 128, 8, 2, 2, 256, 0, 16, "column_parts of the plan is 2 for 8 warps and block_m 16"},
        {64, 80, 8, 1, 2, 256, 0, 64, "block_n of the plan is 80; each of 8 warps owns a multiple of 16 keys"},
        {96, 128, 8, 1, 2, 256, 0, 48, "whose dQ 8 warps cannot divide"},
        {64, 128, 8, 1, 1, 256, 0, 32, "stages of the plan is 1"},
        {64, 128, 8, 1, 2, 256, 0, 24, "slice_m of the plan is 24"},
        {64, 128, 8, 1, 2, 128, 0, 64, "dq_threads of the plan is 128"},
    };
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = spec_of("bwd d=64 act=relu arch=90 family=portable");
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        struct kernel_plan plan = plan_of(&spec);
        plan.block_m = cases[i].block_m;
        plan.block_n = plan.slice_n = cases[i].block_n;
        plan.warps = cases[i].warps;
        plan.threads = cases[i].warps * 32;
        plan.column_parts = cases[i].column_parts;
        plan.stages = cases[i].stages;
        plan.slice_m = cases[i].slice_m;
        plan.dq_threads = cases[i].dq_threads;
        plan.value_columns = cases[i].value_columns;
        plan.smem_bytes = (int32_t)plan_smem_bytes(&spec, &plan);
        assert_int_equal(plan_check(&spec, &plan, &why), GDPA_E_ARGUMENT);
        assert_contains(why.text, cases[i].text);
    }
    sbuf_deinit(&why);
}

static void a_plan_needs_an_architecture(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = spec_of("d=64 act=relu arch=90");
    struct kernel_plan plan = plan_of(&spec);
    spec.arch = 0;
    assert_int_equal(plan_make(&spec, &plan, NULL, &why), GDPA_E_ARGUMENT);
    assert_contains(why.text, "arch");
    assert_int_equal(plan_check(&spec, &plan, &why), GDPA_E_ARGUMENT);
    sbuf_deinit(&why);
}

static const struct change portable_changes[] = {
    {FIELD(family), 0,
     "family of the plan is 0; legal are portable (2), sm90 (3), forward only short (4) and stream (5), backward only "
     "whole "
     "(6) and pairs (7)"},
    {FIELD(family), 6, "family of the plan is 6"}, /* of a forward */
    {FIELD(family), 1, "family of the plan is 1"},
    {FIELD(family), 3, "family of the plan is sm90, which cannot run this: wgmma"},
    {FIELD(block_m), 0, "block_m"},
    {FIELD(block_m), -128, "block_m"},
    {FIELD(block_m), 120, "block_m"},
    {FIELD(block_m), 96, "block_m"}, /* 24 rows for each of 4 warps */
    {FIELD(block_m), 1040, "block_m"},
    {FIELD(block_m), 64, NULL},
    {FIELD(block_m), INT32_MAX, "block_m"},
    {FIELD(block_n), 0, "block_n"},
    {FIELD(block_n), 72, "block_n"},
    {FIELD(block_n), 80, "slice_n"},
    {FIELD(block_n), 128, NULL},
    {FIELD(block_n), 1024, "shared memory a block"},
    {FIELD(slice_n), 0, "slice_n"},
    {FIELD(slice_n), 8, "slice_n"},
    {FIELD(slice_n), 48, "does not divide"},
    {FIELD(slice_n), 128, "slice_n"},
    {FIELD(slice_n), 16, NULL},
    {FIELD(warps), 0, "warps"},
    {FIELD(warps), 3, "block_m"},
    {FIELD(warps), 33, "warps"},
    {FIELD(warps), 8, NULL},
    {FIELD(warps), 16, "block_m"}, /* 8 rows a warp */
    {FIELD(threads), 64, "threads"},
    {FIELD(threads), 127, "threads"},
    {FIELD(stages), 0, "stages"},
    {FIELD(stages), 1, "stages"},
    {FIELD(stages), 5, "stages"},
    {FIELD(stages), 3, NULL},
    {FIELD(q_in_registers), 2, "q_in_registers"},
    {FIELD(q_in_registers), -1, "q_in_registers"},
    {FIELD(q_in_registers), 0, NULL},
    {FIELD(min_blocks), 0, "min_blocks"},
    {FIELD(min_blocks), 1, NULL},
    {FIELD(min_blocks), 8, "shared memory an SM for 8 blocks"},
    {FIELD(min_blocks), 33, "min_blocks"},
    {FIELD(smem_bytes), 0, "smem_bytes"},
    {FIELD(smem_bytes), INT32_MAX, "smem_bytes"},
    {FIELD(query_stages), 1, "query_stages"},
    {FIELD(value_columns), 64, "value_columns"},
    {FIELD(producer_registers), 24, "producer_registers"},
    {FIELD(consumer_registers), 24, "consumer_registers"},
};

/* Of a plan with 3 consumer warpgroups. */
static const struct change sm90_changes[] = {
    {FIELD(family), 2, "belongs to another family"},
    {FIELD(block_m), 64, "block_m"},
    {FIELD(block_m), 128, "block_m"},
    {FIELD(block_m), 256, "block_m"},
    {FIELD(block_n), 48, "slice_n"},
    {FIELD(block_n), 144, "slice_n"},
    {FIELD(block_n), 176, "slice_n"},
    {FIELD(block_n), 384, "block_n 384"}, /* no wgmma is so wide */
    {FIELD(block_n), 64, NULL},
    {FIELD(block_n), 192, NULL},
    {FIELD(slice_n), 128, NULL},
    {FIELD(slice_n), 16, NULL},
    {FIELD(slice_n), 48, "does not divide"},
    {FIELD(warps), 15, "warps"},
    {FIELD(warps), 4, "block_m"},
    {FIELD(warps), 12, "block_m"},
    {FIELD(threads), 384, "threads"},
    {FIELD(stages), 1, "1 stages"},
    {FIELD(stages), 5, "5 stages"},
    {FIELD(stages), 3, NULL},
    {FIELD(query_stages), 0, "0 query_stages"},
    {FIELD(query_stages), 3, "3 query_stages"},
    {FIELD(query_stages), 1, NULL},
    {FIELD(value_columns), 0, "value_columns 0"},
    {FIELD(value_columns), 32, "value_columns 32"}, /* fewer than head_dim_v */
    {FIELD(value_columns), 72, "value_columns 72"},
    {FIELD(value_columns), 80, NULL},
    {FIELD(q_in_registers), 1, NULL},
    {FIELD(min_blocks), 2, "min_blocks"},
    {FIELD(producer_registers), 0, "producer_registers"},
    {FIELD(producer_registers), 16, "producer_registers"},
    {FIELD(producer_registers), 28, "producer_registers"},
    {FIELD(producer_registers), 40, "at most 512"},
    {FIELD(producer_registers), 24, NULL},
    {FIELD(consumer_registers), 0, "consumer_registers"},
    {FIELD(consumer_registers), 152, NULL},
    {FIELD(consumer_registers), 156, "consumer_registers"},
    {FIELD(consumer_registers), 168, "at most 512"},
    {FIELD(consumer_registers), 264, "consumer_registers"},
    {FIELD(smem_bytes), 0, "smem_bytes"},
};
static void portable_plans_from_elsewhere_are_checked_field_by_field(void **state)
{
    (void)state;
    gdpa_spec spec = spec_of("d=64 act=relu arch=80");
    struct kernel_plan plan = {.family = KERNEL_FAMILY_PORTABLE,
                               .block_m = 128,
                               .block_n = 64,
                               .slice_n = 64,
                               .warps = 4,
                               .stages = 2,
                               .q_in_registers = 1,
                               .min_blocks = 2};
    check_changes(&spec, &plan, portable_changes, COUNT_OF(portable_changes));
}

static void sm90_plans_from_elsewhere_are_checked_field_by_field(void **state)
{
    (void)state;
    gdpa_spec spec = spec_of("d=64 act=relu arch=90");
    struct kernel_plan plan = {.family = KERNEL_FAMILY_SM90,
                               .block_m = 192,
                               .block_n = 128,
                               .slice_n = 64,
                               .warps = 16,
                               .stages = 2,
                               .query_stages = 2,
                               .value_columns = 64,
                               .producer_registers = 32,
                               .consumer_registers = 160,
                               .min_blocks = 1};
    check_changes(&spec, &plan, sm90_changes, COUNT_OF(sm90_changes));
    struct sbuf why;
    sbuf_init(&why, 4096);
    plan = plan_of(&spec);
    assert_int_equal(plan_check(&spec, &plan, &why), GDPA_OK);
    static const char *const others[] = {"d=64 act=relu arch=90 unaligned", "d=64 act=relu arch=80"};
    for (size_t i = 0; i < COUNT_OF(others); ++i) {
        spec = spec_of(others[i]);
        assert_int_equal(plan_check(&spec, &plan, &why), GDPA_E_ARGUMENT);
        assert_contains(why.text, "family of the plan is sm90, which cannot run this");
    }
    sbuf_deinit(&why);
}

static void the_output_of_a_thread_is_as_wide_as_a_wgmma(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t columns; /* 0: there is none */
    } cases[] = {
        {"d=128 act=relu arch=90", 128},
        {"d=192 dv=96 act=relu arch=90", 96},
        {"d=8 act=relu arch=90", 32},
        {"d=64 dv=168 act=relu arch=90", 176},
        {"d=64 dv=184 act=relu arch=90", 192},
        {"d=256 act=relu arch=90", 256},
        {"d=128 act=relu arch=90 family=portable", 0},
        {"d=128 act=relu arch=80", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        gdpa_spec spec = spec_of(cases[i].text);
        assert_int_equal(plan_of(&spec).value_columns, cases[i].columns);
    }
}

static void resident_warps_are_limited_too(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    gdpa_spec spec = spec_of("d=8 act=relu arch=86");
    struct kernel_plan plan = {.family = KERNEL_FAMILY_PORTABLE,
                               .block_m = 128,
                               .block_n = 16,
                               .slice_n = 16,
                               .warps = 8,
                               .threads = 256,
                               .stages = 2,
                               .min_blocks = 6};
    plan.smem_bytes = (int32_t)plan_smem_bytes(&spec, &plan);
    assert_int_equal(plan_check(&spec, &plan, &why), GDPA_OK);
    plan.min_blocks = 7; /* 56 warps, sm_86 holds 48 */
    assert_int_equal(plan_check(&spec, &plan, &why), GDPA_E_ARGUMENT);
    assert_contains(why.text, "56 warps");
    sbuf_deinit(&why);
}

static void families_have_names(void **state)
{
    (void)state;
    assert_string_equal(plan_family_name(KERNEL_FAMILY_PORTABLE), "portable");
    assert_string_equal(plan_family_template(GDPA_PASS_FORWARD, KERNEL_FAMILY_PORTABLE), "fwd_portable.cuh");
    assert_string_equal(plan_family_name(KERNEL_FAMILY_SM90), "sm90");
    assert_string_equal(plan_family_template(GDPA_PASS_FORWARD, KERNEL_FAMILY_SM90), "fwd_sm90.cuh");
    assert_string_equal(plan_family_template(GDPA_PASS_BACKWARD, KERNEL_FAMILY_PORTABLE), "bwd_portable.cuh");
    assert_string_equal(plan_family_name(KERNEL_FAMILY_SHORT), "short");
    assert_string_equal(plan_family_template(GDPA_PASS_FORWARD, KERNEL_FAMILY_SHORT), "fwd_short.cuh");
    assert_null(plan_family_template(GDPA_PASS_BACKWARD, KERNEL_FAMILY_SHORT));
    assert_string_equal(plan_family_name(KERNEL_FAMILY_STREAM), "stream");
    assert_string_equal(plan_family_name(KERNEL_FAMILY_PAIRS), "pairs");
    assert_string_equal(plan_family_template(GDPA_PASS_BACKWARD, KERNEL_FAMILY_PAIRS), "bwd_sm90.cuh");
    assert_null(plan_family_template(GDPA_PASS_FORWARD, KERNEL_FAMILY_WHOLE));
    assert_null(plan_family_name(0));
    assert_null(plan_family_template(GDPA_PASS_FORWARD, 99));
    struct kernel_plan none = {.family = 99};
    gdpa_spec spec = spec_of("d=8 act=relu arch=86");
    assert_true(plan_smem_bytes(&spec, &none) == 0);
    assert_int_equal(plan_registers(&spec, &none), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_dim_fits_every_architecture),
        cmocka_unit_test(head_dims_are_padded_to_whole_chunks),
        cmocka_unit_test(shared_memory_is_that_of_the_tiles),
        cmocka_unit_test(plans_are_the_same_each_time_and_say_why),
        cmocka_unit_test(the_family_is_the_fastest_that_can_run_the_spec_unless_one_is_asked_for),
        cmocka_unit_test(the_line_form_names_every_field),
        cmocka_unit_test(the_backward_pass_has_plans_everywhere),
        cmocka_unit_test(a_deterministic_backward_on_hopper_has_a_second_plan),
        cmocka_unit_test(second_plans_on_hopper_are_checked_field_by_field),
        cmocka_unit_test(plans_of_the_backward_that_no_kernel_can_run_are_refused),
        cmocka_unit_test(a_plan_needs_an_architecture),
        cmocka_unit_test(portable_plans_from_elsewhere_are_checked_field_by_field),
        cmocka_unit_test(sm90_plans_from_elsewhere_are_checked_field_by_field),
        cmocka_unit_test(the_output_of_a_thread_is_as_wide_as_a_wgmma),
        cmocka_unit_test(resident_warps_are_limited_too),
        cmocka_unit_test(families_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
