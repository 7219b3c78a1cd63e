/*
 * What verify checks can fail: a plain C kernel in host memory passes on every shape, and with each planted fault it does
 * not, with a message that says what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/host_device.h"
#include "tools/verify_case.h"
#include "tools/verify_run.h"

static struct case_pool pool; /* slow to fill: kept */

static int empty_pool(void **state)
{
    (void)state;
    case_pool_deinit(&pool);
    return 0;
}

static struct case_result run_one(enum host_fault fault, const char *text, const struct shape *shape, uint64_t seed,
                                  double sample_flops)
{
    struct host_device host;
    struct verify_case made;
    struct kernel_facts facts;
    struct run_options options = {.seed = seed, .sample_flops = sample_flops};
    char why[256];
    gdpa_spec spec;
    host_device_init(&host, fault);
    assert_true(host.device.open(&host));
    assert_true(host.device.prepare(&host, text, &spec, &facts));
    assert_true(case_make(&made, &spec, shape, seed, &pool, why, sizeof why));
    struct case_result result = case_run(&host.device, &made, &options);
    assert_int_equal(host.memory, 0);
    case_free(&made);
    return result;
}

static const struct shape *shape_named(const char *name)
{
    int row = shape_find(name);
    assert_true(row >= 0);
    return &shapes[row];
}

static void a_right_kernel_passes_on_every_shape(void **state)
{
    (void)state;
    static const char *const kernels[] = {
        "fwd act=silu d=16",
        "fwd act=gelu d=8 dv=24 jagged causal fp16",
        "fwd act=sigmoid d=16 jagged left=40 unaligned fp32out",
        "bwd act=silu d=16 jagged causal fp32out",
        "bwd act=fast_gelu d=8 dv=24 left=40",
    };
    for (int row = 0; row < shape_find("public-q256-k256-fill1.0"); row++) {
        if (row == shape_find("large-batch") || row == shape_find("long")) {
            continue; /* the shape of a test for itself */
        }
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
            struct case_result result = run_one(FAULT_NONE, kernels[i], &shapes[row], 40 + (uint64_t)row, 0);
            if (!result.good) {
                fail_msg("%s on %s: %s", kernels[i], shapes[row].name, result.message);
            }
            assert_false(result.sampled);
            assert_true(result.ratio <= 1);
        }
    }
}

/* What a score at a kink excuses is told, and so little that it hides no fault. */
static void few_elements_are_excused_by_a_kink(void **state)
{
    (void)state;
    static const char *const kernels[] = {"bwd act=relu d=64", "bwd act=leaky_relu d=64 jagged",
                                          "bwd act=hardswish d=64", "bwd act=silu d=32"};
    static const char *const names[] = {"edges", "mqa", "seqused"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        long long elements = 0, at_kinks = 0, excused = 0;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            struct case_result result = run_one(FAULT_NONE, kernels[i], shape_named(names[n]), 70 + n, 0);
            assert_true(result.good);
            elements += result.elements;
            at_kinks += result.at_kinks;
            excused += result.excused;
        }
        assert_true(i == 2 || (at_kinks > 0) == (i < 2)); /* few scores are near the kinks of hardswish */
        if (at_kinks > elements / 1000 || excused > at_kinks / 100) {
            fail_msg("%s: %lld of %lld elements at a kink, %lld excused", kernels[i], at_kinks, elements, excused);
        }
    }
}

static void a_batch_beyond_65535_passes(void **state)
{
    (void)state;
    struct case_result result = run_one(FAULT_NONE, "fwd act=relu d=8 jagged", shape_named("large-batch"), 3, 0);
    assert_true(result.good);
    assert_true(result.elements > 262144);
}

static void every_planted_fault_is_caught(void **state)
{
    (void)state;
    static const struct {
        enum host_fault fault;
        const char *kernel, *shape, *message;
    } cases[] = {
        {FAULT_ELEMENT, "fwd act=gelu d=16", "small", "column 3"},
        {FAULT_ELEMENT, "fwd act=gelu d=16 jagged fp32out", "seqused", "column 3"},
        {FAULT_NAN, "fwd act=gelu d=16 jagged", "small", "0 elements of the result were not written and 1 are not"},
        {FAULT_SKIPPED_ROW, "fwd act=silu d=16", "joined", "16 elements of the result were not written and 0 are"},
        {FAULT_PAST_END, "fwd act=silu d=16", "edges", "the guard after it changed from byte"},
        {FAULT_PAST_END, "fwd act=silu d=16 jagged", "edges", "the guard after it changed from byte"},
        {FAULT_BEFORE_START, "fwd act=silu d=16", "edges", "the guard before it changed from byte -4 to byte -3"},
        {FAULT_UNUSED_ROW, "fwd act=silu d=16 jagged", "edges", "a part that no sequence owns changed"},
        {FAULT_UNUSED_ROW, "fwd act=silu d=16", "seqused-queries", "a part that no sequence owns changed"},
        {FAULT_GAP, "fwd act=silu d=16", "mqa", "a part that no sequence owns changed"},
        {FAULT_INPUT, "fwd act=silu d=16", "single", "k was written outside the result: an input"},
        {FAULT_OFFSETS, "fwd act=silu d=16 jagged", "small", "cu_seqlens_q was written outside the result"},
        {FAULT_MASK, "fwd act=silu d=16 causal", "edges", "allowed"},
        {FAULT_MASK, "fwd act=silu d=16 causal", "wide", ""}, /* nothing is right of the last key: no fault */
        {FAULT_LEAK, "fwd act=silu d=16", "whole-tiles", "0 elements of the result were not written and 8192 are"},
        {FAULT_MINUS_ZERO, "fwd act=silu d=16", "no-keys", "elements are not finite or not the zero they must be"},
        {FAULT_MINUS_ZERO, "fwd act=silu d=16 causal", "mqa", "not the zero they must be"},
        {FAULT_SCALE, "fwd act=gelu d=16", "edges", "allowed"},
        {FAULT_SCALE, "fwd act=sigmoid d=16", "zero-scale", "allowed"},
        {FAULT_SCALE, "fwd act=gelu d=16", "negative-scale", "allowed"},
        {FAULT_OUT_SCALE, "fwd act=gelu d=16", "joined", "allowed"},
        {FAULT_HEAD, "fwd act=gelu d=16", "edges", "head 1"},
        {FAULT_ACTIVATION, "fwd act=gelu d=16 fp16 fp32out", "edges-unit", "allowed"},
        {FAULT_UNSTABLE, "fwd act=gelu d=16", "edges", "a second launch gave other bits"},
        {FAULT_ELEMENT, "bwd act=gelu d=16", "small", "dq: "},
        {FAULT_NAN, "bwd act=gelu d=16 jagged", "small", "1 are not finite"},
        {FAULT_SKIPPED_ROW, "bwd act=silu d=16", "joined", "dq: 16 elements of the result were not written"},
        {FAULT_PAST_END, "bwd act=silu d=16", "edges", "dq was written outside the result: the guard after it"},
        {FAULT_UNUSED_ROW, "bwd act=silu d=16 jagged", "edges", "a part that no sequence owns changed"},
        {FAULT_GAP, "bwd act=silu d=16", "mqa", "a part that no sequence owns changed"},
        {FAULT_INPUT, "bwd act=silu d=16", "single", "k was written outside the result: an input"},
        {FAULT_MASK, "bwd act=silu d=16 causal", "edges", "allowed"},
        {FAULT_MINUS_ZERO, "bwd act=silu d=16", "no-keys", "dq: "},
        {FAULT_MINUS_ZERO, "bwd act=silu d=16", "no-queries", "dk: "},
        {FAULT_SCALE, "bwd act=gelu d=16", "edges", "allowed"},
        {FAULT_HEAD, "bwd act=gelu d=16", "edges", "allowed"},
        {FAULT_UNSTABLE, "bwd act=gelu d=16 deterministic", "edges", "a second launch gave other bits"},
        {FAULT_UNSTABLE, "bwd act=gelu d=16", "single", ""}, /* sums of dq may come in any order */
        {FAULT_LAUNCH, "fwd act=gelu d=16", "edges", "launch: the planted fault"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct case_result result = run_one(cases[i].fault, cases[i].kernel, shape_named(cases[i].shape), 11 + i, 0);
        bool caught = cases[i].message[0] != 0;
        if (result.good == caught || (caught && strstr(result.message, cases[i].message) == NULL)) {
            fail_msg("fault %zu, %s on %s: '%s'", i, cases[i].kernel, cases[i].shape, result.message);
        }
        assert_int_equal(result.lost, cases[i].fault == FAULT_LAUNCH);
    }
}

static void a_sampled_case_still_checks_the_rest_whole(void **state)
{
    (void)state;
    static const struct {
        enum host_fault fault;
        const char *message;
    } cases[] = {
        {FAULT_NONE, ""},
        {FAULT_NAN, "1 are not finite"},
        {FAULT_SKIPPED_ROW, "16 elements of the result were not written"},
        {FAULT_PAST_END, "the guard after it"},
        {FAULT_UNUSED_ROW, "a part that no sequence owns"},
        {FAULT_SCALE, "allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct case_result result = run_one(cases[i].fault, "fwd act=gelu d=16 jagged", shape_named("edges"), 5, 1e6);
        assert_true(result.sampled);
        assert_int_equal(result.good, cases[i].fault == FAULT_NONE);
        assert_non_null(strstr(result.message, cases[i].message));
        assert_true(result.elements > 0);
    }
}

static void a_sample_is_smaller_than_the_whole(void **state)
{
    (void)state;
    struct case_result whole = run_one(FAULT_NONE, "fwd act=relu d=8", shape_named("head-major"), 5, 0);
    struct case_result sample = run_one(FAULT_NONE, "fwd act=relu d=8", shape_named("head-major"), 5, 1e5);
    assert_true(sample.sampled && !whole.sampled);
    assert_true(sample.elements < whole.elements);
    /* The first, the last and the longest sequence are always in it. */
    assert_true(sample.elements >= 16128 /* 2 sequences, 63 rows, 16 heads, 8 columns */);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_kernel_passes_on_every_shape),
        cmocka_unit_test(few_elements_are_excused_by_a_kink),
        cmocka_unit_test(a_batch_beyond_65535_passes),
        cmocka_unit_test(every_planted_fault_is_caught),
        cmocka_unit_test(a_sampled_case_still_checks_the_rest_whole),
        cmocka_unit_test(a_sample_is_smaller_than_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, empty_pool);
}
