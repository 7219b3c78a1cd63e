/*
 * The short way of a launch against the long one: what it accepts, that accepts too, and makes the same of it.
 */
#include "runtime/launch_quick.h"
#include "tests/support/random.h"
#include "tests/support/runtime_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct made {
    gdpa_spec spec;
    struct kernel_plan plan;
    struct launch_quick quick;
};

static struct made made_of(const char *text)
{
    const gdpa_spec spec = runtime_spec(text);
    struct made made;
    struct sbuf why;
    sbuf_init(&why, 4096);
    if (spec_normalise(&spec, false, &made.spec, &why) != GDPA_OK ||
        plan_make(&made.spec, &made.plan, NULL, &why) != GDPA_OK) {
        fail_msg("%s", why.text);
    }
    sbuf_deinit(&why);
    launch_quick_make(&made.spec, &made.plan, &made.quick);
    return made;
}

static const char *const texts[] = {
    "fwd head_dim=64 activation=relu arch=sm_80",
    "fwd head_dim=128 activation=silu arch=sm_90a",
    "fwd head_dim=128 head_dim_v=64 activation=silu causal arch=sm_90a family=portable",
    "fwd head_dim=64 activation=leaky_relu layout_q=jagged layout_k=jagged arch=sm_90a",
    "fwd head_dim=96 activation=gelu layout_q=jagged out_dtype=fp32 arch=sm_86",
    "fwd head_dim=64 activation=relu layout_k=jagged causal arch=sm_100a",
    "fwd head_dim=40 activation=relu unaligned arch=sm_80",
    "fwd head_dim=256 dtype=fp16 activation=relu unaligned out_dtype=fp32 layout_q=jagged layout_k=jagged arch=sm_80",
    "fwd head_dim=64 activation=relu layout_q=jagged layout_k=jagged family=short arch=sm_90a",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static struct random_source source;

static uint64_t roll(void)
{
    return random_next(&source);
}

static bool chance(unsigned of)
{
    return roll() % of == 0;
}

/* Mostly ordinary, now and then at or beyond an edge. */
static int64_t number(int64_t ordinary)
{
    static const int64_t edges[] = {-1,         0,          1,          2,         INT32_MAX, INT64_C(2147418112),
                                    2147418113, 2147483646, 2147483648, INT64_MAX, INT64_MIN, INT64_C(1) << 40};
    return chance(12) ? edges[roll() % (sizeof edges / sizeof edges[0])] : (int64_t)(roll() % (uint64_t)ordinary) + 1;
}

static int64_t stride_near(int64_t packed)
{
    if (chance(12)) {
        return number(4096);
    }
    return chance(3) ? (int64_t)((uint64_t)packed + 8 * (roll() % 5) - 8) : packed;
}

static void tensor_vary(gdpa_tensor *tensor, int64_t rows, int64_t heads, int64_t dim)
{
    tensor->data = chance(40) ? NULL : (void *)(uintptr_t)(0x10000 + 16 * (roll() % 4096));
    if (chance(20)) {
        tensor->data = (char *)tensor->data + roll() % 16;
    }
    tensor->flags = chance(3) ? GDPA_TENSOR_STRIDES : 0;
    tensor->flags |= chance(60) ? 1u << roll() % 8 : 0;
    tensor->dtype = chance(10) ? (int32_t)(roll() % 5) : 0;
    const bool rows_inside = chance(3);
    tensor->stride_head = stride_near(rows_inside ? (int64_t)((uint64_t)rows * (uint64_t)dim) : dim);
    tensor->stride_row = stride_near(rows_inside ? dim : (int64_t)((uint64_t)heads * (uint64_t)dim));
    tensor->stride_batch = stride_near((int64_t)((uint64_t)rows * (uint64_t)heads * (uint64_t)dim));
    tensor->stride_dim = chance(30) ? number(3) : 1;
    if ((tensor->flags & GDPA_TENSOR_STRIDES) == 0 && !chance(20)) {
        tensor->stride_batch = tensor->stride_row = tensor->stride_head = 0;
    }
}

static const int32_t *pointer(bool wanted)
{
    if (chance(25)) {
        wanted = !wanted;
    }
    return wanted ? (const int32_t *)(uintptr_t)(0x8000 + (chance(20) ? roll() % 8 : 0)) : NULL;
}

/* 0, mostly, where its bit is not set. */
static float scalar(uint32_t flag)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 3.4e38f, 1e-45f};
    return chance(flag != 0 ? 10 : 20) ? odd[roll() % (sizeof odd / sizeof odd[0])] : flag != 0 ? 0.125f : 0.0f;
}

static gdpa_args args_any(const struct made *made)
{
    gdpa_args args = GDPA_ARGS_INIT;
    const bool jagged_q = made->spec.layout_q == GDPA_LAYOUT_JAGGED,
               jagged_k = made->spec.layout_k == GDPA_LAYOUT_JAGGED;
    args.size -= chance(100) ? 4 : 0;
    args.flags = (uint32_t)(roll() % 8) | (chance(60) ? 8 : 0);
    args.batch = number(chance(3) ? 1 : 2000);
    args.heads_k = number(4);
    args.heads_q = chance(2) ? args.heads_k : chance(2) ? number(16) : (int64_t)((uint64_t)args.heads_k * 3);
    const int64_t rows_q = number(chance(2) ? 300 : 100000), rows_k = number(3000);
    args.seqlen_q = jagged_q && !chance(40) ? 0 : rows_q;
    args.total_q = !jagged_q && !chance(40) ? 0 : rows_q;
    args.seqlen_k = jagged_k && !chance(40) ? 0 : rows_k;
    args.total_k = !jagged_k && !chance(40) ? 0 : rows_k;
    args.max_seqlen_q = jagged_q ? (chance(2) ? 0 : number(500)) : chance(40) ? 1 : 0;
    args.max_seqlen_k = jagged_k ? (chance(2) ? 0 : number(500)) : chance(40) ? 1 : 0;
    args.cu_seqlens_q = pointer(jagged_q);
    args.cu_seqlens_k = pointer(jagged_k);
    args.seqused_q = pointer(chance(3));
    args.seqused_k = pointer(chance(3));
    args.scale = scalar(args.flags & GDPA_ARGS_SCALE);
    args.out_scale = scalar(args.flags & GDPA_ARGS_OUT_SCALE);
    args.activation_param = scalar(args.flags & GDPA_ARGS_ACTIVATION_PARAM);
    tensor_vary(&args.q, rows_q, args.heads_q, made->spec.head_dim);
    tensor_vary(&args.k, rows_k, args.heads_k, made->spec.head_dim);
    tensor_vary(&args.v, rows_k, args.heads_k, made->spec.head_dim_v);
    tensor_vary(&args.o, rows_q, args.heads_q, made->spec.head_dim_v);
    return args;
}

static void expect_same(const struct launch_shape *a, const struct launch_shape *b)
{
    assert_memory_equal(&a->params, &b->params, sizeof a->params);
    assert_int_equal(a->grid, b->grid);
    assert_int_equal(a->grid_y, b->grid_y);
    assert_int_equal(a->block, b->block);
    assert_int_equal(a->smem, b->smem);
    assert_int_equal(a->persistent, b->persistent);
    assert_int_equal(a->boxed, b->boxed);
}

static void what_the_short_way_accepts_the_long_way_makes_the_same_of(void **state)
{
    (void)state;
    long accepted = 0, legal = 0;
    for (int i = 0; i < TEXTS; i++) {
        const struct made made = made_of(texts[i]);
        source = (struct random_source){.seed = (uint64_t)i + 1};
        for (int round = 0; round < 40000; round++) {
            const gdpa_args args = args_any(&made);
            struct launch_shape quick, full;
            const bool taken = launch_quick_fill(&made.quick, &args, &quick);
            const gdpa_status status = launch_shape_fill(&made.spec, &made.plan, &args, &full);
            accepted += taken;
            legal += status == GDPA_OK;
            if (taken && status != GDPA_OK) {
                fail_msg("%s, round %d: accepted, but %s", texts[i], round, gdpa_last_error());
            }
            if (taken) {
                expect_same(&quick, &full);
            }
        }
    }
    /* The rest are empty problems, launches of more than 2^31 tiles, and strides in an order that nobody has. */
    print_message("%ld of %ld legal calls took the short way\n", accepted, legal);
    assert_true(legal > 20000);
    assert_true(accepted > legal / 2);
}

static void ordinary_calls_take_the_short_way(void **state)
{
    (void)state;
    for (int i = 0; i < TEXTS; i++) {
        const struct made made = made_of(texts[i]);
        gdpa_args args = runtime_args();
        struct launch_shape shape;
        if (made.spec.layout_q == GDPA_LAYOUT_JAGGED) {
            args.total_q = 300, args.seqlen_q = 0;
            args.cu_seqlens_q = (const int32_t *)(uintptr_t)0x1000;
        }
        if (made.spec.layout_k == GDPA_LAYOUT_JAGGED) {
            args.total_k = 300, args.seqlen_k = 0;
            args.cu_seqlens_k = (const int32_t *)(uintptr_t)0x1000;
        }
        assert_true(launch_quick_fill(&made.quick, &args, &shape));
        args.batch = 0;
        assert_false(launch_quick_fill(&made.quick, &args, &shape));
    }
    const struct made made = made_of(texts[0]);
    struct launch_shape shape;
    assert_false(launch_quick_fill(&made.quick, NULL, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_short_way_accepts_the_long_way_makes_the_same_of),
        cmocka_unit_test(ordinary_calls_take_the_short_way),
    };
    return cmocka_run_group_tests(tests, fakes_load, NULL);
}
