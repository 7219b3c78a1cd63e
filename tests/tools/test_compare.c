/*
 * The accuracy rule can fail: every kind of wrong element is caught, at the bound and beyond it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/compare.h"
#include "tests/support/half.h"

static const struct compare_place nowhere = {0, 0, 0, 0};

/* count elements of about 1 with an eager error of 0.25 and an error of ours of `error` in one of them. */
static void add_group(struct compare *compare, int count, double error)
{
    for (int i = 0; i < count; i++) {
        struct compare_place place = {1, 2, i, 3};
        compare_add(compare, 1.0 + (i == count / 2 ? error : 0), 1.0, 1.25, place);
    }
    compare_group_end(compare);
}

static void errors_up_to_the_bound_hold_and_larger_ones_do_not(void **state)
{
    (void)state;
    static const struct {
        double factor, error;
        bool holds;
    } cases[] = {
        {2, 0, true},
        {2, 0.5, true},
        {2, 0.5 + 0x1p-7, true}, /* 1 ulp of bf16 at 1 */
        {2, -(0.5 + 0x1p-7), true},
        {2, 0.5 + 0x1p-7 + 0x1p-20, false},
        {2, -(0.5 + 0x1p-7 + 0x1p-20), false},
        {3, 0.75 + 0x1p-7, true},
        {3, 0.75 + 0x1p-6, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compare compare;
        compare_init(&compare, GDPA_DTYPE_BF16, cases[i].factor);
        add_group(&compare, COMPARE_POOL_BELOW, cases[i].error);
        compare_finish(&compare);
        assert_int_equal(compare_holds(&compare), cases[i].holds);
        char text[400];
        compare_explain(&compare, text, sizeof text);
        assert_int_equal(strlen(text) == 0, cases[i].holds);
    }
}

/* One element may be off by its allowance more, and no other element by anything. */
static void an_allowance_is_that_of_its_element_alone(void **state)
{
    (void)state;
    static const double bound = 0.75 + 0x1p-7;
    static const struct {
        double allowance, inexact, error, elsewhere;
        bool holds;
        int allowed, excused;
    } cases[] = {
        {0, 0, bound, 0, true, 0, 0},
        {0, 0, 2, 0, false, 0, 0},
        {1.5, 0, 0, 0, true, 1, 0},
        {1.5, 0, -bound, 0, true, 1, 0},
        {1.5, 0, 1.5 + bound, 0, true, 1, 1},
        {1.5, 0, -1.5 - bound, 0, true, 1, 1},
        {1.5, 0, 1.5 + bound + 0x1p-20, 0, false, 1, 1},
        {1.5, 0, 0, 2, false, 1, 0},
        {1.5, 0, 2, 2, false, 1, 1},
        {1.5, 0, (double)NAN, 0, false, 1, 1},
        {(double)INFINITY, 0, 2, 0, false, 1, 1},
        {(double)NAN, 0, 2, 0, false, 0, 0},
        {0, 1.5, 1.5 + bound, 0, true, 0, 1},
        {0, 1.5, -bound, 0, true, 0, 0},
        {0, 1.5, 1.5 + bound + 0x1p-20, 0, false, 0, 1},
        {1, 0.5, -1.5 - bound, 0, true, 1, 1},
        {0, 1.5, 0, 2, false, 0, 0},
        {0, 1.5, (double)NAN, 0, false, 0, 1},
        {0, (double)INFINITY, 2, 0, false, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compare compare;
        compare_init(&compare, GDPA_DTYPE_BF16, 3);
        for (int n = 0; n < COMPARE_POOL_BELOW; n++) {
            double error = n == 99 ? cases[i].error : n == 500 ? cases[i].elsewhere : 0;
            struct compare_allowance allowance = {n == 99 ? cases[i].allowance : 0, n == 99 ? cases[i].inexact : 0};
            compare_add_allowed(&compare, 1 + error, 1, 1.25, allowance, nowhere);
        }
        compare_finish(&compare);
        assert_int_equal(compare_holds(&compare), cases[i].holds);
        assert_int_equal(compare.allowed, cases[i].allowed);
        assert_int_equal(compare.excused, cases[i].excused);
    }
}

static void an_element_that_is_not_finite_fails(void **state)
{
    (void)state;
    static const double wrong[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};
    for (size_t i = 0; i < 3; i++) {
        for (int at = 0; at < 3; at++) {
            struct compare compare;
            compare_init(&compare, GDPA_DTYPE_BF16, 2);
            for (int n = 0; n < 3; n++) {
                compare_add(&compare, n == at ? wrong[i] : 1.0, 1.0, 1.25, nowhere);
            }
            compare_finish(&compare);
            assert_false(compare_holds(&compare));
            assert_int_equal(compare.broken, 1);
        }
    }
}

static void a_zero_must_be_plus_zero(void **state)
{
    (void)state;
    static const struct {
        double ours;
        bool holds;
    } cases[] = {{0.0, true}, {-0.0, false}, {1e-30, false}, {(double)NAN, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compare compare;
        compare_init(&compare, GDPA_DTYPE_FP16, 2);
        compare_add(&compare, 1.0, 1.0, 1.0, nowhere);
        compare_add_zero(&compare, cases[i].ours, nowhere);
        compare_finish(&compare);
        assert_int_equal(compare_holds(&compare), cases[i].holds);
    }
}

static void expectations_that_do_not_fit_the_type_are_no_test(void **state)
{
    (void)state;
    struct compare compare;
    compare_init(&compare, GDPA_DTYPE_FP16, 2);
    compare_add(&compare, (double)INFINITY, 1e6, 1e6, nowhere);
    compare_finish(&compare);
    assert_false(compare_holds(&compare));
    assert_int_equal(compare.overflowing, 1);
    char text[400];
    compare_explain(&compare, text, sizeof text);
    assert_non_null(strstr(text, "do not fit fp16"));
}

static void a_large_group_does_not_hide_an_error_in_a_small_one(void **state)
{
    (void)state;
    struct compare compare;
    compare_init(&compare, GDPA_DTYPE_BF16, 2);
    for (int i = 0; i < COMPARE_POOL_BELOW; i++) {
        compare_add(&compare, 1000, 1000, 1010, nowhere);
    }
    compare_group_end(&compare);
    for (int i = 0; i < COMPARE_POOL_BELOW; i++) {
        compare_add(&compare, i == 5 ? 3.0 : 1.0, 1.0, 1.01, nowhere);
    }
    compare_finish(&compare);
    assert_false(compare_holds(&compare));
    assert_true(compare.worst.ours == 3.0);
}

static void tiny_groups_are_judged_together(void **state)
{
    (void)state;
    struct compare compare;
    compare_init(&compare, GDPA_DTYPE_FP32, 2);
    compare_add(&compare, 1.125, 1.0, 1.0, nowhere); /* alone it would fail: its eager error is 0 by luck */
    compare_group_end(&compare);
    compare_add(&compare, 1.0, 1.0, 1.25, nowhere);
    compare_group_end(&compare);
    compare_finish(&compare);
    assert_true(compare_holds(&compare));
    assert_int_equal(compare.worst.count, 2);
    compare_init(&compare, GDPA_DTYPE_FP32, 2);
    compare_add(&compare, 1.6, 1.0, 1.0, nowhere);
    compare_group_end(&compare);
    compare_add(&compare, 1.0, 1.0, 1.25, nowhere);
    compare_finish(&compare);
    assert_false(compare_holds(&compare));
}

/* One key and fp32 output: P was rounded to the input type, and an eager P that happens to fit leaves no room for that. */
static void tiny_groups_are_allowed_the_rounding_of_p(void **state)
{
    (void)state;
    static const struct {
        double error;
        int count;
        bool holds;
    } cases[] = {
        {0x1p-7, 8, true},
        {0x1.01p-7, 8, false},
        {0x1p-7, COMPARE_POOL_BELOW, false},
        {0x1p-23, COMPARE_POOL_BELOW, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct compare compare;
        compare_init(&compare, GDPA_DTYPE_FP32, 2);
        compare.input_dtype = GDPA_DTYPE_BF16;
        for (int n = 0; n < cases[i].count; n++) {
            compare_add(&compare, 1 + cases[i].error, 1, 1, nowhere);
        }
        compare_finish(&compare);
        assert_int_equal(compare_holds(&compare), cases[i].holds);
    }
}

static void the_worst_place_is_named(void **state)
{
    (void)state;
    struct compare compare;
    compare_init(&compare, GDPA_DTYPE_BF16, 2);
    add_group(&compare, 2000, 0.1);
    add_group(&compare, 3000, 5);
    add_group(&compare, 2000, 0.2);
    compare_finish(&compare);
    assert_int_equal(compare.worst.place.row, 1500);
    char text[400];
    compare_explain(&compare, text, sizeof text);
    assert_non_null(strstr(text, "sequence 1 head 2 row 1500 column 3: got 6, expected 1, error 5"));
}

static void the_frobenius_norm_is_relative(void **state)
{
    (void)state;
    struct compare compare;
    compare_init(&compare, GDPA_DTYPE_BF16, 2);
    compare_add(&compare, 3.5, 3.0, 3.0, nowhere);
    compare_add(&compare, 4.0, 4.0, 4.0, nowhere);
    compare_finish(&compare);
    assert_true(fabs(compare_frobenius(&compare) - 0.1) < 1e-15);
    compare_init(&compare, GDPA_DTYPE_BF16, 2);
    compare_add_zero(&compare, 0, nowhere);
    compare_finish(&compare);
    assert_true(compare_frobenius(&compare) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_up_to_the_bound_hold_and_larger_ones_do_not),
        cmocka_unit_test(an_allowance_is_that_of_its_element_alone),
        cmocka_unit_test(an_element_that_is_not_finite_fails),
        cmocka_unit_test(a_zero_must_be_plus_zero),
        cmocka_unit_test(expectations_that_do_not_fit_the_type_are_no_test),
        cmocka_unit_test(a_large_group_does_not_hide_an_error_in_a_small_one),
        cmocka_unit_test(tiny_groups_are_judged_together),
        cmocka_unit_test(tiny_groups_are_allowed_the_rounding_of_p),
        cmocka_unit_test(the_worst_place_is_named),
        cmocka_unit_test(the_frobenius_norm_is_relative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
