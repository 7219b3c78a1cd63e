/*
 * Random data: reproducible whatever the number of threads, normal where it says so; and the parallel loop under it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/half.h"
#include "tests/support/parallel.h"
#include "tests/support/random.h"

static void a_seed_gives_the_same_numbers_with_any_number_of_threads(void **state)
{
    (void)state;
    enum { COUNT = 300001 };
    uint16_t *one = malloc(sizeof(uint16_t) * COUNT);
    uint16_t *many = malloc(sizeof(uint16_t) * COUNT);
    assert_non_null(one);
    assert_non_null(many);
    random_fill_normal(GDPA_DTYPE_BF16, one, COUNT, 1, 42, 1);
    random_fill_normal(GDPA_DTYPE_BF16, many, COUNT, 1, 42, 7);
    assert_memory_equal(one, many, sizeof(uint16_t) * COUNT);
    random_fill_normal(GDPA_DTYPE_BF16, many, COUNT, 1, 43, 7);
    assert_memory_not_equal(one, many, sizeof(uint16_t) * COUNT);
    free(one);
    free(many);
}

static void filled_arrays_are_normal(void **state)
{
    (void)state;
    enum { COUNT = 400000 };
    float *values = malloc(sizeof(float) * COUNT);
    assert_non_null(values);
    random_fill_normal(GDPA_DTYPE_FP32, values, COUNT, 2, 7, 0);
    double mean = 0, square = 0, fourth = 0, neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = (double)values[i] / 2;
        mean += x / COUNT;
        square += x * x / COUNT;
        fourth += x * x * x * x / COUNT;
        neighbours += i > 0 ? x * (double)values[i - 1] / 2 / COUNT : 0;
    }
    free(values);
    assert_true(fabs(mean) < 0.01);
    assert_true(fabs(square - 1) < 0.01);
    assert_true(fabs(fourth - 3) < 0.06);
    assert_true(fabs(neighbours) < 0.01);
}

static void integers_cover_their_range_and_both_ends(void **state)
{
    (void)state;
    struct random_source source = {.seed = 5};
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        int64_t value = random_between(&source, -3, 3);
        assert_in_range(value + 3, 0, 6);
        seen[value + 3]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 800, 1200);
    }
    assert_int_equal(random_between(&source, 9, 9), 9);
}

static void single_normals_and_units_have_their_moments(void **state)
{
    (void)state;
    struct random_source source = {.seed = 11};
    double mean = 0, square = 0, unit = 0;
    enum { COUNT = 200000 };
    for (int i = 0; i < COUNT; i++) {
        double x = random_normal(&source);
        double u = random_unit(&source);
        assert_true(u >= 0 && u < 1);
        mean += x / COUNT;
        square += x * x / COUNT;
        unit += u / COUNT;
    }
    assert_true(fabs(mean) < 0.02 && fabs(square - 1) < 0.02 && fabs(unit - 0.5) < 0.01);
}

static void fresh_seeds_differ(void **state)
{
    (void)state;
    assert_true(random_fresh_seed() != random_fresh_seed());
    assert_true(random_fresh_seed() >> 63 == 0);
}

struct visits {
    _Atomic int count[1000];
    _Atomic int bad_threads;
    int threads;
};

static void visit(int64_t item, int thread, void *user)
{
    struct visits *visits = user;
    visits->count[item]++;
    visits->bad_threads += thread < 0 || thread >= visits->threads;
}

static void a_parallel_loop_visits_every_item_once(void **state)
{
    (void)state;
    static const int threads[] = {0, 1, 2, 5, 100000};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        struct visits *visits = calloc(1, sizeof *visits);
        assert_non_null(visits);
        visits->threads = parallel_threads(1000, threads[t]);
        parallel_for(1000, threads[t], visit, visits);
        assert_int_equal(visits->bad_threads, 0);
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(visits->count[i], 1);
        }
        free(visits);
    }
    parallel_for(0, 4, visit, NULL);
}

static void the_number_of_threads_is_bounded_by_the_items(void **state)
{
    (void)state;
    assert_int_equal(parallel_threads(3, 8), 3);
    assert_int_equal(parallel_threads(0, 8), 1);
    assert_int_equal(parallel_threads(1000000, 8), 8);
    assert_int_equal(parallel_threads(1000000, 100000), PARALLEL_MAX_THREADS);
    assert_true(parallel_processors() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_the_same_numbers_with_any_number_of_threads),
        cmocka_unit_test(filled_arrays_are_normal),
        cmocka_unit_test(integers_cover_their_range_and_both_ends),
        cmocka_unit_test(single_normals_and_units_have_their_moments),
        cmocka_unit_test(fresh_seeds_differ),
        cmocka_unit_test(a_parallel_loop_visits_every_item_once),
        cmocka_unit_test(the_number_of_threads_is_bounded_by_the_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
