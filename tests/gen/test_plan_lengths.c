/*
 * plan: the families that lengths choose, short and stream of a forward, whole and pairs of a backward.
 */
#include "gen/plan.h"

#include "gen/tables.h"
#include "tests/gen/gen_test.h"
#include "tests/gen/plan_changes.h"

/* Of a plan for head dimension 64. */
static const struct change short_changes[] = {
    {FIELD(family), 2, "32 for 4 warps"},
    {FIELD(block_m), 16, NULL},
    {FIELD(block_m), 64, "block_m 64"},
    {FIELD(block_n), 16, "block_n 16"},
    {FIELD(block_n), 64, "shared memory an SM"},
    {FIELD(slice_n), 32, "slice_n 32"},
    {FIELD(warps), 2, NULL},
    {FIELD(warps), 8, "shared memory an SM"},
    {FIELD(threads), 64, "threads"},
    {FIELD(stages), 2, "stages 2"},
    {FIELD(q_in_registers), 1, "q_in_registers"},
    {FIELD(min_blocks), 9, "shared memory an SM"},
    {FIELD(min_blocks), 1, NULL},
    {FIELD(smem_bytes), 0, "smem_bytes"},
    {FIELD(query_stages), 1, "query_stages"},
    {FIELD(value_columns), 64, "value_columns"},
    {FIELD(producer_registers), 24, "producer_registers"},
    {FIELD(consumer_registers), 24, "consumer_registers"},
};

/* The same of the family stream. */
static const struct change stream_changes[] = {
    {FIELD(block_m), 48, NULL},
    {FIELD(block_n), 80, NULL},
    {FIELD(block_n), 128, NULL},
    {FIELD(block_n), 512, "shared memory an SM"},
    {FIELD(slice_n), 32, NULL},
    {FIELD(slice_n), 48, "does not divide"},
    {FIELD(slice_m), 48, "slice_m 48"},
    {FIELD(slice_m), 0, "slice_m 0"},
    {FIELD(warps), 8, "shared memory an SM"},
    {FIELD(stages), 2, "stages 2"},
    {FIELD(q_in_registers), 0, "q_in_registers 0"},
    {FIELD(min_blocks), 1, NULL},
    {FIELD(smem_bytes), 0, "smem_bytes"},
    {FIELD(query_stages), 1, "query_stages"},
    {FIELD(consumer_registers), 24, "consumer_registers"},
};

/* Of the families whole and pairs. */
static const struct change whole_changes[] = {
    {FIELD(family), 3, NULL},
    {FIELD(family), 7, "cluster of the plan is 0; that of family pairs is 2"},
    {FIELD(cluster), 2, "cluster of the plan is 2; that of family whole is 0"},
    {FIELD(block_n), 256, "the Hopper backward has 64, 128 and 12"},
    {FIELD(query_stages), 2, NULL},
    {FIELD(query_stages), 4, "query_stages"},
    {FIELD(share_columns), 128, "share_columns"},
    {FIELD(smem_bytes), 0, "smem_bytes"},
};
static const struct change pairs_changes[] = {
    {FIELD(family), 6, "cluster of the plan is 2; that of family whole is 0"},
    {FIELD(cluster), 0, "cluster of the plan is 0; that of family pairs is 2"},
    {FIELD(cluster), 4, "cluster of the plan is 4"},
    {FIELD(block_m), 128, "block_m"},
    {FIELD(query_stages), 2, NULL},
    {FIELD(smem_bytes), 0, "smem_bytes"},
};

static void plans_for_lengths_are_checked_too(void **state)
{
    (void)state;
    gdpa_spec spec = spec_of("d=64 act=relu arch=90 family=short");
    struct kernel_plan plan = plan_of(&spec);
    assert_int_equal(plan.family, KERNEL_FAMILY_SHORT);
    check_changes(&spec, &plan, short_changes, COUNT_OF(short_changes));
    spec = spec_of("d=64 act=relu arch=90 family=stream");
    plan = plan_of(&spec);
    assert_int_equal(plan.family, KERNEL_FAMILY_STREAM);
    check_changes(&spec, &plan, stream_changes, COUNT_OF(stream_changes));
    spec = spec_of("bwd d=128 act=relu arch=90 family=whole");
    plan = plan_of(&spec);
    assert_int_equal(plan.family, KERNEL_FAMILY_WHOLE);
    assert_int_equal(plan_tile_keys(&plan), 128);
    check_changes(&spec, &plan, whole_changes, COUNT_OF(whole_changes));
    spec = spec_of("bwd d=128 act=relu arch=90 family=pairs");
    plan = plan_of(&spec);
    assert_int_equal(plan.family, KERNEL_FAMILY_PAIRS);
    assert_int_equal(plan_tile_keys(&plan), 256);
    check_changes(&spec, &plan, pairs_changes, COUNT_OF(pairs_changes));
}

static void families_of_lengths_fit_every_architecture_up_to_head_dim_128(void **state)
{
    (void)state;
    static const char *const texts[] = {"d=8 act=silu family=short", "d=8 act=silu family=stream"};
    struct choice_table archs = choice_table(OPTION_KIND_CHOICE_ARCH);
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (size_t i = 0; i < 2 * archs.count; ++i) {
        const struct arch_row *arch = arch_find(archs.rows[i / 2].number);
        gdpa_spec spec = spec_of(texts[i % 2]);
        spec.arch = arch->number;
        for (spec.head_dim = 8; spec.head_dim <= 136; spec.head_dim += 8) {
            for (spec.head_dim_v = 8; spec.head_dim_v <= 136; spec.head_dim_v += 8) {
                struct kernel_plan plan;
                const bool fits = spec.head_dim <= 128 && spec.head_dim_v <= 128;
                assert_int_equal(plan_make(&spec, &plan, NULL, &why), fits ? GDPA_OK : GDPA_E_UNSUPPORTED);
                if (fits) {
                    assert_int_equal(plan.family, spec.family);
                    assert_true(plan.min_blocks >= 1 && plan_registers(&spec, &plan) <= 255);
                }
            }
        }
    }
    sbuf_deinit(&why);
}

static void whole_and_pairs_fit_hopper_where_their_columns_do(void **state)
{
    (void)state;
    struct sbuf why;
    sbuf_init(&why, 4096);
    for (int32_t family = GDPA_FAMILY_WHOLE; family <= GDPA_FAMILY_PAIRS; ++family) {
        gdpa_spec spec = spec_of("bwd d=8 act=silu family=whole arch=90");
        spec.family = family;
        for (spec.head_dim = 8; spec.head_dim <= 136; spec.head_dim += 8) {
            for (spec.head_dim_v = 8; spec.head_dim_v <= 136; spec.head_dim_v += 8) {
                struct kernel_plan plan;
                const bool fits = spec.head_dim <= 128 && spec.head_dim_v <= 128 &&
                                  (family == GDPA_FAMILY_WHOLE || spec.head_dim > 64);
                assert_int_equal(plan_make(&spec, &plan, NULL, &why), fits ? GDPA_OK : GDPA_E_UNSUPPORTED);
                if (fits) {
                    assert_int_equal(plan.family, family);
                    assert_int_equal(plan.query_stages, 3); /* everything hangs on the third */
                    assert_true(plan_is_hopper(&plan) && plan_has_all_keys(&plan));
                }
            }
        }
    }
    static const struct {
        const char *text, *part;
    } refused[] = {
        {"bwd d=128 act=relu arch=80 family=whole", "family whole cannot run this: wgmma is on sm_90a only"},
        {"bwd d=128 act=relu arch=90 family=pairs unaligned", "family pairs cannot run this: the copy engine"},
        {"bwd d=128 act=relu arch=90 family=whole deterministic", "deterministic passes are of family sm90"},
        {"bwd d=64 dv=128 act=relu arch=90 family=pairs", "no two chunks of 64 columns"},
    };
    for (size_t i = 0; i < COUNT_OF(refused); ++i) {
        struct kernel_plan plan;
        const gdpa_spec spec = spec_of(refused[i].text);
        assert_int_equal(plan_make(&spec, &plan, NULL, &why), GDPA_E_UNSUPPORTED);
        assert_contains(why.text, refused[i].part);
    }
    sbuf_deinit(&why);
}

static void the_copy_engine_stores_dq_of_chunks_that_one_warpgroup_has(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool stores;
    } cases[] = {
        {"bwd d=64 act=relu arch=90 family=whole", true},
        {"bwd d=40 dv=64 act=relu arch=90 family=whole", true},
        {"bwd d=64 dv=72 act=relu arch=90 family=whole", false}, /* each has half of the columns */
        {"bwd d=16 dv=128 act=relu arch=90 family=whole", false},
        {"bwd d=72 dv=8 act=relu arch=90 family=whole", true},
        {"bwd d=128 act=relu arch=90 family=pairs", true},
        {"bwd d=128 act=relu arch=90 family=pairs dtype=fp16 out_dtype=fp32", false},
        {"bwd d=128 act=relu arch=90", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        const gdpa_spec spec = spec_of(cases[i].text);
        const struct kernel_plan plan = plan_of(&spec);
        assert_int_equal(plan_stores_queries(&spec, &plan), cases[i].stores);
    }
}

static void a_plan_for_lengths_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"bwd d=128 act=relu arch=90 family=whole", "reason: block_n 128: all keys of a sequence"},
        {"bwd d=128 act=relu arch=90 family=pairs", "reason: cluster 2: up to 256 keys of a sequence"},
        {"bwd d=128 act=relu arch=90", "reason: not family pairs: a spec does not say that keys are few"},
        {"bwd d=128 act=relu arch=90 schedule=dynamic", "reason: not family whole: the spec names a schedule"},
        {"bwd d=128 act=relu arch=90", "reason: family sm90: the fastest that is left"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        struct sbuf text, why;
        sbuf_init(&text, 1 << 16);
        sbuf_init(&why, 4096);
        const gdpa_spec spec = spec_of(cases[i].text);
        assert_int_equal(plan_print(&spec, &text, &why), GDPA_OK);
        assert_contains(text.text, cases[i].part);
        sbuf_deinit(&text);
        sbuf_deinit(&why);
    }
}

static void lengths_choose_a_family_where_the_spec_leaves_it_open(void **state)
{
    (void)state;
    enum {
        AUTO = GDPA_FAMILY_AUTO,
        SHORT = GDPA_FAMILY_SHORT,
        STREAM = GDPA_FAMILY_STREAM,
        WHOLE = GDPA_FAMILY_WHOLE,
        PAIRS = GDPA_FAMILY_PAIRS,
    };
    static const struct {
        const char *text;
        struct plan_lengths lengths;
        int32_t family;
    } cases[] = {
        {"d=64 act=relu", {64, 64, 1, 0}, SHORT},
        {"d=128 dv=8 act=relu causal layout_q=jagged family=auto arch=80", {1, 0, 9, 0}, SHORT},
        {"d=64 act=relu", {65, 65, 10000, 0}, AUTO},
        {"d=64 act=relu", {64, 1000, 10000, 0}, AUTO},
        {"d=64 act=relu", {1000, 64, 10000, 0}, STREAM},
        {"d=64 act=relu", {1000, 64, 10, 0}, AUTO},
        {"d=64 act=relu", {1000, 65, 10000, 0}, AUTO},
        {"d=128 act=relu", {1000, 64, 10000, 0}, STREAM},
        {"d=64 act=relu unaligned", {64, 64, 10000, 0}, AUTO},
        {"d=136 act=relu", {64, 64, 10000, 0}, AUTO},
        {"d=64 dv=256 act=relu", {1000, 32, 10000, 0}, AUTO},
        {"d=64 act=relu family=portable", {64, 64, 10000, 0}, AUTO},
        {"d=64 act=relu family=sm90", {1000, 32, 10000, 0}, AUTO},
        {"bwd d=64 act=relu arch=90", {64, 0, 1, 0}, WHOLE},
        {"bwd d=64 act=relu arch=90", {64, 128, 10000, 128}, WHOLE},
        {"bwd d=64 act=relu arch=90", {64, 129, 10000, 129}, AUTO},
        {"bwd d=64 dv=128 act=relu arch=90", {64, 129, 10000, 129}, AUTO},
        {"bwd d=72 act=relu arch=90 layout_q=jagged", {64, 129, 1, 129}, PAIRS},
        {"bwd d=128 act=relu arch=90", {1000, 1, 1, 1}, WHOLE},
        {"bwd d=128 dv=8 act=relu causal arch=90 layout_k=jagged", {1000, 128, 1, 5}, WHOLE},
        {"bwd d=128 dv=8 act=relu causal arch=90 layout_k=jagged", {1000, 256, 1, 64}, PAIRS},
        {"bwd d=128 act=relu arch=90 layout_k=jagged", {1000, 256, 10000, 63}, AUTO}, /* most have 128 or less */
        {"bwd d=128 act=relu arch=90", {1000, 256, 128, 256}, PAIRS},
        {"bwd d=128 act=relu arch=90", {1000, 256, 127, 256}, AUTO}, /* too few for dense tiles that are shared */
        {"bwd d=128 act=relu arch=90", {1000, 257, 10000, 257}, AUTO},
        {"bwd d=128 act=relu arch=90 deterministic", {1000, 100, 10000, 100}, AUTO},
        {"bwd d=128 act=relu arch=90 schedule=dynamic", {1000, 100, 10000, 100}, AUTO},
        {"bwd d=128 act=relu arch=90 family=portable", {1000, 100, 10000, 100}, AUTO},
        {"bwd d=128 act=relu arch=90 unaligned", {1000, 100, 10000, 100}, AUTO},
        {"bwd d=128 act=relu arch=80", {1000, 100, 10000, 100}, AUTO},
        {"bwd d=128 act=relu", {1000, 100, 10000, 100}, AUTO}, /* without an arch nobody knows */
        {"bwd d=136 act=relu arch=90", {1000, 100, 10000, 100}, AUTO},
        {"d=128 act=relu arch=90", {1000, 100, 10000, 100}, AUTO},
    };
    for (size_t i = 0; i < COUNT_OF(cases); ++i) {
        const gdpa_spec spec = spec_of(cases[i].text);
        if (plan_family_for(&spec, &cases[i].lengths) != cases[i].family) {
            fail_msg("%s with %d and %d rows", cases[i].text, (int)cases[i].lengths.longest_q,
                     (int)cases[i].lengths.longest_k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_for_lengths_are_checked_too),
        cmocka_unit_test(families_of_lengths_fit_every_architecture_up_to_head_dim_128),
        cmocka_unit_test(whole_and_pairs_fit_hopper_where_their_columns_do),
        cmocka_unit_test(the_copy_engine_stores_dq_of_chunks_that_one_warpgroup_has),
        cmocka_unit_test(a_plan_for_lengths_says_why),
        cmocka_unit_test(lengths_choose_a_family_where_the_spec_leaves_it_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
