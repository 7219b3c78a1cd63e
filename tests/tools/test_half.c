/*
 * bf16 and fp16 conversions: every 16-bit pattern round trips, and rounding goes to nearest even at every boundary.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/half.h"

static const struct {
    int32_t dtype;
    uint16_t (*encode)(double value);
    double (*decode)(uint16_t bits);
    uint16_t infinity;
} types[] = {
    {GDPA_DTYPE_BF16, bf16_from_double, bf16_to_double, 0x7f80},
    {GDPA_DTYPE_FP16, fp16_from_double, fp16_to_double, 0x7c00},
};

static void every_pattern_that_is_a_number_round_trips(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (unsigned bits = 0; bits < 0x10000; bits++) {
            double value = types[t].decode((uint16_t)bits);
            if (isnan(value)) {
                assert_true((bits & 0x7fff) > types[t].infinity);
                assert_true(isnan(types[t].decode(types[t].encode(value))));
            } else {
                assert_int_equal(types[t].encode(value), bits);
            }
        }
    }
}

static void patterns_grow_with_their_numbers(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (unsigned bits = 0; bits < types[t].infinity; bits++) {
            assert_true(types[t].decode((uint16_t)(bits + 1)) > types[t].decode((uint16_t)bits));
        }
    }
}

/* Half-way points go to the even pattern; a hair off them, to the nearer one. The last one is the step to infinity. */
static void rounding_goes_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (unsigned bits = 0; bits < types[t].infinity; bits++) {
            double low = types[t].decode((uint16_t)bits);
            double high = types[t].decode((uint16_t)(bits + 1));
            if (isinf(high)) {
                high = 2 * low - types[t].decode((uint16_t)(bits - 1));
            }
            double middle = low + (high - low) / 2;
            unsigned even = bits % 2 ? bits + 1 : bits;
            assert_int_equal(types[t].encode(middle), even);
            assert_int_equal(types[t].encode(-middle), even | 0x8000);
            assert_int_equal(types[t].encode(nextafter(middle, 0)), bits);
            assert_int_equal(types[t].encode(nextafter(middle, 2 * middle)), bits + 1);
        }
    }
}

static void rounding_to_a_type_gives_the_number_that_the_pattern_holds(void **state)
{
    (void)state;
    static const double values[] = {0.0,   1.0,     1.00390625, 1.001, 3.14159, 1e-5, 6e-8,
                                    1e-40, 65519.9, 65520,      1e30,  3.4e38,  1e300};
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            double rounded = dtype_round(types[t].dtype, values[i]);
            assert_true(rounded == types[t].decode(types[t].encode(values[i])));
            assert_true(dtype_round(types[t].dtype, -values[i]) == -rounded);
        }
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0] - 1; i++) {
        assert_true(dtype_round(GDPA_DTYPE_FP32, values[i]) == (double)(float)values[i]);
    }
    assert_true(signbit(dtype_round(GDPA_DTYPE_BF16, -0.0)));
    assert_true(isinf(dtype_round(GDPA_DTYPE_FP32, 1e300)));
}

static void known_patterns(void **state)
{
    (void)state;
    assert_int_equal(bf16_from_double(1.0), 0x3f80);
    assert_int_equal(bf16_from_double(-2.5), 0xc020);
    assert_int_equal(fp16_from_double(1.0), 0x3c00);
    assert_int_equal(fp16_from_double(-2.5), 0xc100);
    assert_int_equal(fp16_from_double(65504), 0x7bff);
    assert_int_equal(fp16_from_double(65520), 0x7c00);
    assert_int_equal(fp16_from_double(0x1p-24), 0x0001);
    assert_int_equal(fp16_from_double(0x1p-25), 0x0000);
    assert_int_equal(bf16_from_double((double)INFINITY), 0x7f80);
    assert_int_equal(bf16_from_double((double)-INFINITY), 0xff80);
}

static void one_ulp_is_the_step_to_the_next_number(void **state)
{
    (void)state;
    assert_true(dtype_ulp(GDPA_DTYPE_BF16, 1.0) == 0x1p-7);
    assert_true(dtype_ulp(GDPA_DTYPE_BF16, 1.99) == 0x1p-7);
    assert_true(dtype_ulp(GDPA_DTYPE_BF16, -2.0) == 0x1p-6);
    assert_true(dtype_ulp(GDPA_DTYPE_FP16, 1.0) == 0x1p-10);
    assert_true(dtype_ulp(GDPA_DTYPE_FP16, 0.0) == 0x1p-24);
    assert_true(dtype_ulp(GDPA_DTYPE_FP32, 1.0) == 0x1p-23);
    assert_true(dtype_ulp(GDPA_DTYPE_FP32, 0.0) == 0x1p-149);
}

static void arrays_of_every_type_are_stored_and_loaded(void **state)
{
    (void)state;
    static const int32_t dtypes[] = {GDPA_DTYPE_BF16, GDPA_DTYPE_FP16, GDPA_DTYPE_FP32};
    static const size_t sizes[] = {2, 2, 4};
    static const char *const names[] = {"bf16", "fp16", "fp32"};
    for (size_t t = 0; t < 3; t++) {
        float memory[4];
        for (int i = 0; i < 4; i++) {
            dtype_store(dtypes[t], memory, i, 0.5 * i - 0.75);
        }
        for (int i = 0; i < 4; i++) {
            assert_true(dtype_load(dtypes[t], memory, i) == 0.5 * i - 0.75);
        }
        assert_int_equal(dtype_size(dtypes[t]), sizes[t]);
        assert_string_equal(dtype_name(dtypes[t]), names[t]);
    }
    assert_int_equal(dtype_size(99), 0);
    assert_string_equal(dtype_name(99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_that_is_a_number_round_trips),
        cmocka_unit_test(patterns_grow_with_their_numbers),
        cmocka_unit_test(rounding_goes_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(rounding_to_a_type_gives_the_number_that_the_pattern_holds),
        cmocka_unit_test(known_patterns),
        cmocka_unit_test(one_ulp_is_the_step_to_the_next_number),
        cmocka_unit_test(arrays_of_every_type_are_stored_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
