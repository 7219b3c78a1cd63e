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
    assert_true(reference_forward(&fixture->problem, o, NULL));
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
    assert_true(reference_backward(&fixture.problem, exact, none, none));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes_for_every_activation),
        cmocka_unit_test(gradients_are_slopes_for_every_mask_and_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
