/*
 * The gradients of the reference against central finite differences of its own forward.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/reference.h"
#include "tests/support/reference_fixture.h"

static const struct {
    int number;
    const char *name;
    double parameter;
} activations[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    {number, name, param_default},
#include "gen/activations.def"
#undef ACTIVATION
};
enum {
    ACTIVATION_COUNT = sizeof activations / sizeof activations[0],
};

/* sum of dO * O over the rows of sequences. */
static double loss(const struct fixture *fixture, double *o, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        o[i] = 0; /* rows outside sequences stay so */
    }
    assert_true(reference_forward(&fixture->problem, o, NULL, NULL));
    double sum = 0;
    const float *d_out = fixture->problem.d_out.data;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)d_out[i] * o[i];
    }
    return sum;
}

static void assert_slopes(struct fixture *fixture, float *input, const double *gradient, int64_t count,
                          const char *what, const char *where)
{
    struct reference_sizes sizes = reference_sizes_find(&fixture->problem);
    double *o = fixture_allocate(sizeof(double) * (size_t)sizes.o);
    for (int64_t i = 0; i < count; i += 3) { /* every third, for time: 3 divides no row of a tensor */
        float kept = input[i];
        input[i] = kept + 0x1p-14f;
        double high = (double)input[i], above = loss(fixture, o, sizes.o);
        input[i] = kept - 0x1p-14f;
        double low = (double)input[i], below = loss(fixture, o, sizes.o);
        input[i] = kept;
        double slope = (above - below) / (high - low);
        if (!(fabs(slope - gradient[i]) <= 2e-4 * (1 + fabs(slope)))) {
            fail_msg("%s of %s, element %lld: %.9g, slope %.9g", what, where, (long long)i, gradient[i], slope);
        }
    }
    free(o);
}

static void check_gradients(const struct variant *variant, int activation)
{
    struct fixture fixture;
    fixture_make(&fixture, variant, activation, GDPA_DTYPE_FP32);
    fixture.args.scale = 0.25f;
    struct reference_sizes sizes = reference_sizes_find(&fixture.problem);
    struct fixture_results found = fixture_results_allocate(&sizes);
    memset(found.dq, 0, sizeof(double) * (size_t)sizes.dq);
    memset(found.dk, 0, sizeof(double) * (size_t)sizes.dk);
    memset(found.dv, 0, sizeof(double) * (size_t)sizes.dv);
    struct reference_gradients exact = {found.dq, found.dk, found.dv}, none = {NULL, NULL, NULL};
    assert_true(reference_backward(&fixture.problem, exact, none, none, none));
    char where[80];
    snprintf(where, sizeof where, "'%s', %s", variant->name, activations[activation - 1].name);
    fixture.problem.threads = 1;
    assert_slopes(&fixture, fixture.args.q.data, found.dq, sizes.dq, "dq", where);
    assert_slopes(&fixture, fixture.args.k.data, found.dk, sizes.dk, "dk", where);
    assert_slopes(&fixture, fixture.args.v.data, found.dv, sizes.dv, "dv", where);
    fixture_results_free(&found);
    fixture_free(&fixture);
}

static void gradients_are_slopes_for_every_activation(void **state)
{
    (void)state;
    for (int a = 0; a < ACTIVATION_COUNT; a++) {
        check_gradients(&fixture_variants[2], activations[a].number);
    }
}

static void gradients_are_slopes_for_every_mask_and_layout(void **state)
{
    (void)state;
    for (int n = 0; n < fixture_variant_count; n++) {
        if (!fixture_variants[n].odd_strides) {
            check_gradients(&fixture_variants[n], GDPA_ACTIVATION_GELU);
        }
    }
}

/* The blocks of a side, one by one, are what the whole says; and who sees a key is who says it sees it. */
static void check_blocks(const struct fixture *fixture, bool of_keys)
{
    struct reference_sizes sizes = reference_sizes_find(&fixture->problem);
    struct fixture_results found = fixture_results_allocate(&sizes);
    struct reference_gradients none = {NULL, NULL, NULL}, whole = {found.dq, found.dk, found.dv};
    assert_true(reference_backward(&fixture->problem, whole, none, none, none));
    struct reference_block *blocks = NULL;
    int64_t count = 0;
    assert_true((of_keys ? reference_key_blocks_list : reference_blocks_list)(&fixture->problem, &blocks, &count));
    size_t bytes = sizeof(double) * (size_t)count * REFERENCE_BLOCK_ROWS;
    double *dq = fixture_allocate(bytes * DIM + 1), *dk = fixture_allocate(bytes * DIM + 1);
    double *dv = fixture_allocate(bytes * DIM_V + 1);
    struct reference_gradients exact = {of_keys ? NULL : dq, of_keys ? dk : NULL, of_keys ? dv : NULL};
    assert_true(reference_backward_blocks(&fixture->problem, of_keys, blocks, count, exact, none, none, none));
    for (int64_t n = 0; n < count; n++) {
        struct reference_sequence sequence = reference_sequence_find(&fixture->problem, blocks[n].sequence);
        int64_t heads = of_keys ? fixture->args.heads_k : fixture->args.heads_q;
        for (int64_t row = 0; row < blocks[n].rows; row++) {
            int64_t at = ((of_keys ? sequence.first_k : sequence.first_q) + blocks[n].first_row + row) * heads;
            int64_t packed = n * REFERENCE_BLOCK_ROWS + row;
            at += blocks[n].head;
            assert_memory_equal((of_keys ? dk : dq) + packed * DIM, (of_keys ? found.dk : found.dq) + at * DIM,
                                sizeof(double) * DIM);
            if (of_keys) {
                assert_memory_equal(dv + packed * DIM_V, found.dv + at * DIM_V, sizeof(double) * DIM_V);
            }
        }
    }
    free(dq);
    free(dk);
    free(dv);
    free(blocks);
    fixture_results_free(&found);
}

static void check_seeing(const struct fixture *fixture)
{
    for (int64_t b = 0; b < fixture->args.batch; b++) {
        struct reference_sequence sequence = reference_sequence_find(&fixture->problem, b);
        for (int64_t j = 0; j < sequence.rows_k; j++) {
            int64_t first, last;
            reference_seeing(&fixture->problem, &sequence, j, &first, &last);
            for (int64_t i = 0; i < sequence.rows_q; i++) {
                int64_t begin, end;
                reference_visible(&fixture->problem, &sequence, i, &begin, &end);
                assert_int_equal(begin <= j && j < end, first <= i && i < last);
            }
        }
    }
}

static void blocks_and_views_of_keys_agree_with_the_whole(void **state)
{
    (void)state;
    for (int n = 0; n < fixture_variant_count; n++) {
        struct fixture fixture;
        fixture_make(&fixture, &fixture_variants[n], GDPA_ACTIVATION_SILU, GDPA_DTYPE_BF16);
        check_blocks(&fixture, false);
        check_blocks(&fixture, true);
        check_seeing(&fixture);
        fixture_free(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes_for_every_activation),
        cmocka_unit_test(gradients_are_slopes_for_every_mask_and_layout),
        cmocka_unit_test(blocks_and_views_of_keys_agree_with_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
