/*
 * The arithmetic of the steady protocol: groups of about 25 ms, the median of the second half, the spread.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/bench_steady.h"

static void groups_last_about_25_ms_and_fill_the_time(void **state)
{
    (void)state;
    static const struct {
        double estimate, seconds;
        int calls, groups;
    } cases[] = {
        {1.0, 1.2, 25, 48},                         /* 25 calls of 1 ms */
        {2.6, 1.2, 9, 51},                          /* 9 calls are 23.4 ms */
        {40, 1.2, 1, 30},                           /* one call is longer than a group */
        {900, 1.2, 1, 4},                           /* never fewer than four */
        {0.01, 1.2, 2500, 48}, {0, 1.2, 25000, 48}, /* too short to be seen: 1 us is assumed */
        {1.0, 0, 25, 4},       {1.0, 3600, 25, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int calls = 0;
        int groups = 0;
        steady_plan(cases[i].estimate, cases[i].seconds, &calls, &groups);
        assert_int_equal(calls, cases[i].calls);
        assert_int_equal(groups, cases[i].groups);
    }
}

static void the_second_half_counts(void **state)
{
    (void)state;
    double times[] = {10, 11, 12, 13, 20, 24, 22, 26, 30}; /* the last five, in any order */
    struct steady_result result = {.ms = 0};
    steady_summarise(times, 9, 2, &result);
    assert_true(result.first_ms == 5);
    assert_true(result.ms == 12);
    /* Sorted 20 22 24 26 30: 10th percentile 20.8, 90th 28.4. */
    assert_true(fabs(result.spread - (28.4 - 20.8) / 24) < 1e-12);
}

static void an_even_half_takes_the_mean_of_the_middle_two(void **state)
{
    (void)state;
    double times[] = {9, 9, 9, 9, 4, 1, 3, 2};
    struct steady_result result = {.ms = 0};
    steady_summarise(times, 8, 1, &result);
    assert_true(result.ms == 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_last_about_25_ms_and_fill_the_time),
        cmocka_unit_test(the_second_half_counts),
        cmocka_unit_test(an_even_half_takes_the_mean_of_the_middle_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
