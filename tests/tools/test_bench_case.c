/*
 * Names of bench cases: read and written back alike, bad ones refused with the reason; lengths, FLOPs and bytes are what a
 * count by hand gives.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench_case.h"

static struct bench_case parsed(const char *name)
{
    struct bench_case found;
    char why[256] = "";
    if (!bench_case_parse(name, &found, why, sizeof why)) {
        fail_msg("%s: %s", name, why);
    }
    return found;
}

static void names_are_written_as_they_are_read(void **state)
{
    (void)state;
    static const char *const names[] = {
        "fwd/dense/d128/q4096/k4096/h16/b8/bf16/relu",
        "bwd/jagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/fill0.5",
        "fwd/dense/d192x128/q4096/k2048/h16x4/b8/fp16/gelu_tanh/causal",
        "fwd/jagged/d64/q100/k100/h8x1/b3/bf16/silu/w128,-1/top_left/fill0.75/kvjagged/outfp32/portable/det",
        "fwd/qjagged/d64/q100/k100/h8/b3/fp16/silu/fill0.5",
        "fwd/kjagged/d64/q100/k100/h8/b3/fp16/silu",
        "fwd/dense/d64/q100/k100/h8/b3/fp16/silu/causal/w127,-1/outbf16/sm90",
        "bwd/jagged/d128/q1000/k128/h4/b1152/bf16/fast_gelu/fill0.5/whole",
        "bwd/kjagged/d128/q1024/k256/h4/b1152/bf16/fast_gelu/pairs",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[BENCH_NAME];
        struct bench_case found = parsed(names[i]);
        bench_case_name(&found, name);
        assert_string_equal(name, names[i]);
    }
}

static void every_suite_is_made_of_legal_canonical_names(void **state)
{
    (void)state;
    for (const struct bench_suite *suite = bench_suites; suite->name != NULL; suite++) {
        assert_ptr_equal(bench_suite_find(suite->name), suite);
        for (size_t i = 0; suite->cases[i] != NULL; i++) {
            char name[BENCH_NAME];
            struct bench_case found = parsed(suite->cases[i]);
            bench_case_name(&found, name);
            assert_string_equal(name, suite->cases[i]);
            found.spec.arch = 90;
            if (gdpa_spec_check(&found.spec) != GDPA_OK) {
                fail_msg("%s: %s", name, gdpa_last_error());
            }
            for (size_t other = 0; other < i; other++) {
                assert_string_not_equal(suite->cases[other], suite->cases[i]);
            }
        }
    }
    char why[256];
    assert_null(bench_suite_find("portabel"));
    bench_suite_unknown("portabel", why, sizeof why);
    assert_non_null(
        strstr(why, "unknown suite portabel (did you mean portable?); known are portable, forward, jagged"));
}

static void words_say_what_they_say(void **state)
{
    (void)state;
    struct bench_case found = parsed("fwd/jagged/d96x64/q300/k200/h6x2/b5/fp16/elu/w3,4/top_left/fill0.5/outfp32");
    assert_int_equal(found.spec.pass, GDPA_PASS_FORWARD);
    assert_int_equal(found.spec.layout_q, GDPA_LAYOUT_JAGGED);
    assert_int_equal(found.spec.layout_k, GDPA_LAYOUT_JAGGED);
    assert_int_equal(found.spec.head_dim, 96);
    assert_int_equal(found.spec.head_dim_v, 64);
    assert_int_equal(found.rows_q, 300);
    assert_int_equal(found.rows_k, 200);
    assert_int_equal(found.heads_q, 6);
    assert_int_equal(found.heads_k, 2);
    assert_int_equal(found.batch, 5);
    assert_int_equal(found.spec.dtype, GDPA_DTYPE_FP16);
    assert_int_equal(found.spec.out_dtype, GDPA_DTYPE_FP32);
    assert_int_equal(found.spec.activation, GDPA_ACTIVATION_ELU);
    assert_int_equal(found.spec.window_left, 3);
    assert_int_equal(found.spec.window_right, 4);
    assert_int_equal(found.spec.flags, GDPA_SPEC_WINDOW_LEFT | GDPA_SPEC_WINDOW_RIGHT);
    assert_int_equal(found.spec.align, GDPA_ALIGN_TOP_LEFT);
    assert_true(found.fill == 0.5 && !found.keys_follow);
    assert_string_equal(bench_case_keys(&found), "short");
    found = parsed("fwd/jagged/d64/q300/k300/h2/b5/bf16/relu/others7/kvjagged/zigzag");
    assert_int_equal(found.others, 7);
    assert_int_equal(found.spec.schedule, GDPA_SCHEDULE_ZIGZAG);
    assert_int_equal(parsed("fwd/dense/d64/q3/k3/h2/b5/relu/static").spec.schedule, GDPA_SCHEDULE_STATIC);
    assert_int_equal(parsed("fwd/dense/d64/q3/k3/h2/b5/relu/dynamic").spec.schedule, GDPA_SCHEDULE_DYNAMIC);
    assert_int_equal(parsed("bwd/jagged/d64/q3/k3/h2/b5/relu/dynamic").spec.schedule, GDPA_SCHEDULE_DYNAMIC);
}

static void bad_names_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *name, *reason;
    } bad[] = {
        {"", "fwd or bwd is missing"},
        {"fwd/d128/q4096/k4096/h16/b8/relu", "dense or jagged is missing"},
        {"fwd/dense/q4096/k4096/h16/b8/relu", "d<head_dim> is missing"},
        {"fwd/dense/d128/k4096/h16/b8/relu", "q<rows> is missing"},
        {"fwd/dense/d128/q4096/h16/b8/relu", "k<rows> is missing"},
        {"fwd/dense/d128/q4096/k4096/b8/relu", "h<heads> is missing"},
        {"fwd/dense/d128/q4096/k4096/h16/relu", "b<batch> is missing"},
        {"fwd/dense/d128/q4096/k4096/h16/b8", "an activation is missing"},
        {"fwd/dense/d128/q4096/k4096/h16/b8/relo", "'relo' means nothing in the name of a case (did you mean relu?)"},
        {"fwd/dense/dx/q4096/k4096/h16/b8/relu", "'dx' means nothing"},
        {"fwd/dense/d128x/q4096/k4096/h16/b8/relu", "'d128x' means nothing"},
        {"fwd/dense/d128/q0/k4096/h16/b8/relu", "'q0' means nothing"},
        {"fwd/dense/d128/q99999999999/k1/h16/b8/relu", "'q99999999999' means nothing"},
        {"fwd/dense/d128/q1/k1/h16/b8/relu/w5", "'w5' means nothing"},
        {"fwd/dense/d128/q1/k1/h16/b8/relu/w-2,0", "'w-2,0' means nothing"},
        {"fwd/jagged/d128/q1/k1/h16/b8/relu/fill0", "'fill0' means nothing"},
        {"fwd/jagged/d128/q1/k1/h16/b8/relu/fill1.5", "'fill1.5' means nothing"},
        {"fwd/dense/d128/q1/k1/h16/b8/relu/fill0.5", "fill and kvjagged are for jagged cases"},
        {"fwd/kjagged/d128/q1/k1/h16/b8/relu/fill0.5", "fill and kvjagged are for jagged cases"},
        {"fwd/qjagged/d128/q1/k1/h16/b8/relu/kvjagged", "fill and kvjagged are for jagged cases"},
        {"fwd/jagged/d128/q2/k1/h16/b8/relu/kvjagged", "but q and k differ"},
        {"fwd/dense/d128/q2/k1/h16/b8/relu/others1", "others is the length of all sequences but one"},
        {"fwd/jagged/d128/q2/k2/h16/b8/relu/others3", "others is the length of all sequences but one"},
        {"fwd/jagged/d128/q2/k2/h16/b8/relu/others0", "'others0' means nothing"},
        {"fwd/dense/d128/q1/k1/h16x5/b8/relu", "16 query heads are no multiple of 5"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bench_case found;
        char why[256] = "";
        assert_false(bench_case_parse(bad[i].name, &found, why, sizeof why));
        if (strstr(why, bad[i].reason) == NULL) {
            fail_msg("%s: '%s'", bad[i].name, why);
        }
    }
}

static struct bench_shape shape_of(const char *name)
{
    struct bench_case found = parsed(name);
    struct bench_shape shape;
    assert_true(bench_shape_make(&found, 3, &shape));
    return shape;
}

static void useful_flops_and_bytes_are_counted_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double flops, bytes;
    } cases[] = {
        /* batch * heads * pairs * 2 (D + Dv); (q + k) D and (k + o) Dv, 2 bytes each */
        {"fwd/dense/d128/q64/k32/h2/b3/bf16/relu", 3.0 * 2 * 64 * 32 * 512, 3.0 * 2 * (64 + 32 + 32 + 64) * 128 * 2},
        {"fwd/dense/d64x128/q10/k10/h4x2/b1/bf16/relu", 4.0 * 100 * 2 * 192,
         2.0 * (4 * 10 * 64 + 2 * 10 * 64 + 2 * 10 * 128 + 4 * 10 * 128)},
        {"fwd/dense/d8/q10/k10/h1/b1/bf16/relu/causal", 55.0 * 32, 4.0 * 80 * 2},
        {"fwd/dense/d8/q4/k10/h1/b1/bf16/relu/causal", (7 + 8 + 9 + 10) * 32.0, 2.0 * (4 + 10 + 10 + 4) * 8},
        {"fwd/dense/d8/q4/k10/h1/b1/bf16/relu/causal/top_left", (1 + 2 + 3 + 4) * 32.0, 2.0 * 28 * 8},
        {"fwd/dense/d8/q10/k10/h1/b1/bf16/relu/w1,1/outfp32", 28.0 * 32, 3.0 * 80 * 2 + 80 * 4},
        {"fwd/jagged/d8/q10/k10/h1/b3/bf16/relu/others2/kvjagged", 108.0 * 32, 4.0 * 14 * 8 * 2},
        /* 2 (3 D + 2 Dv), 2.5 times the forward where they are equal; q, k, v and dout read, dq, dk and dv written */
        {"bwd/dense/d128/q64/k32/h2/b3/bf16/relu", 2.5 * 3 * 2 * 64 * 32 * 512,
         3.0 * 2 * (2 * (64 + 32 + 32) + 64) * 128 * 2},
        {"bwd/dense/d64x128/q10/k10/h1/b1/bf16/relu/outfp32", 100.0 * 2 * (3 * 64 + 2 * 128),
         (2.0 + 4) * (10 * 64 + 10 * 64 + 10 * 128) + 2 * 10 * 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_shape shape = shape_of(cases[i].name);
        if (shape.flops != cases[i].flops || shape.bytes != cases[i].bytes) {
            fail_msg("%s: %g FLOP, %g bytes", cases[i].name, shape.flops, shape.bytes);
        }
        bench_shape_free(&shape);
    }
}

static void jagged_lengths_have_their_fill(void **state)
{
    (void)state;
    struct bench_shape whole = shape_of("fwd/jagged/d8/q1000/k256/h4/b1152/bf16/relu");
    assert_int_equal(whole.args.total_q, 1152 * 1000);
    assert_int_equal(whole.args.total_k, 1152 * 256);
    assert_int_equal(whole.args.max_seqlen_q, 1000);
    bench_shape_free(&whole);
    struct bench_shape half = shape_of("fwd/jagged/d8/q1000/k256/h4/b1152/bf16/relu/fill0.5");
    double mean = (double)half.args.total_q / 1152;
    assert_true(mean > 470 && mean < 530);
    int32_t least = 1000, most = 0;
    for (int b = 0; b < 1152; b++) {
        int32_t length = half.cu_seqlens_q[b + 1] - half.cu_seqlens_q[b];
        least = length < least ? length : least;
        most = length > most ? length : most;
        assert_int_equal(half.cu_seqlens_k[b + 1] - half.cu_seqlens_k[b], 256);
    }
    assert_true(least >= 1 && least < 20 && most > 980 && most <= 1000);
    assert_true(half.flops == 32.0 * 4 * 256 * (double)half.args.total_q);
    bench_shape_free(&half);
    struct bench_shape follow = shape_of("fwd/jagged/d8/q100/k100/h4/b50/bf16/relu/fill0.8/kvjagged");
    for (int b = 0; b <= 50; b++) {
        assert_int_equal(follow.cu_seqlens_q[b], follow.cu_seqlens_k[b]);
    }
    assert_true(follow.args.total_q > 3500 && follow.args.total_q < 4500);
    bench_shape_free(&follow);
}

static void offsets_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct bench_case found = parsed("fwd/jagged/d8/q1000000/k1/h1/b5000/bf16/relu");
    struct bench_shape shape;
    assert_false(bench_shape_make(&found, 1, &shape));
    assert_null(shape.cu_seqlens_q);
}

static void a_spec_gets_a_usual_shape(void **state)
{
    (void)state;
    gdpa_spec spec = GDPA_SPEC_INIT;
    spec.head_dim = 64, spec.activation = GDPA_ACTIVATION_SILU, spec.causal = 1, spec.arch = 90;
    struct bench_case made;
    char name[BENCH_NAME];
    bench_case_of_spec(&spec, &made);
    bench_case_name(&made, name);
    assert_string_equal(name, "fwd/dense/d64/q4096/k4096/h32/b8/bf16/silu/causal");
    spec.head_dim = 128;
    bench_case_of_spec(&spec, &made);
    bench_case_name(&made, name);
    assert_string_equal(name, "fwd/dense/d128/q4096/k4096/h16/b8/bf16/silu/causal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_written_as_they_are_read),
        cmocka_unit_test(every_suite_is_made_of_legal_canonical_names),
        cmocka_unit_test(words_say_what_they_say),
        cmocka_unit_test(bad_names_are_refused_with_the_reason),
        cmocka_unit_test(useful_flops_and_bytes_are_counted_exactly),
        cmocka_unit_test(jagged_lengths_have_their_fill),
        cmocka_unit_test(offsets_that_do_not_fit_are_refused),
        cmocka_unit_test(a_spec_gets_a_usual_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
