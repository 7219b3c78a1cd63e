/*
 * The activations of the reference: known values, derivatives that are slopes, and nothing that overflows on the way.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/reference.h"

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

static void activations_have_their_known_values(void **state)
{
    (void)state;
    static const struct {
        int activation;
        double x, value, derivative;
    } known[] = {
        {GDPA_ACTIVATION_IDENTITY, -2.5, -2.5, 1},
        {GDPA_ACTIVATION_RELU, -1, 0, 0},
        {GDPA_ACTIVATION_RELU, 0, 0, 0},
        {GDPA_ACTIVATION_RELU, 2, 2, 1},
        {GDPA_ACTIVATION_RELU_SQUARE, 3, 9, 6},
        {GDPA_ACTIVATION_RELU_SQUARE, -3, 0, 0},
        {GDPA_ACTIVATION_LEAKY_RELU, 2, 2, 1},
        {GDPA_ACTIVATION_LEAKY_RELU, -2, -0.02, 0.01},
        {GDPA_ACTIVATION_LEAKY_RELU, 0, 0, 0.01},
        {GDPA_ACTIVATION_GELU, 1, 0.84134474606854293, 1.0833154705876864},
        {GDPA_ACTIVATION_GELU, -1, -0.15865525393145707, -0.083315470587686291},
        {GDPA_ACTIVATION_GELU, 0, 0, 0.5},
        {GDPA_ACTIVATION_GELU_TANH, 1, 0.84119199060827676, 1.0829640838457826},
        {GDPA_ACTIVATION_FAST_GELU, 1, 0.84119199060827676, 1.0829640838457826},
        {GDPA_ACTIVATION_FAST_GELU_BF16, 1, 0.84119199060827676, 1.0829640838457826},
        {GDPA_ACTIVATION_SILU, 1, 0.73105857863000490, 0.92767051187148686},
        {GDPA_ACTIVATION_FAST_SILU, 1, 0.73105857863000490, 0.92767051187148686},
        {GDPA_ACTIVATION_SILU, 0, 0, 0.5},
        {GDPA_ACTIVATION_HARDSWISH, -3, 0, 0},
        {GDPA_ACTIVATION_HARDSWISH, 3, 3, 1},
        {GDPA_ACTIVATION_HARDSWISH, 1.5, 1.125, 1},
        {GDPA_ACTIVATION_HARDSWISH, -1, -1.0 / 3, 1.0 / 6},
        {GDPA_ACTIVATION_SIGMOID, 0, 0.5, 0.25},
        {GDPA_ACTIVATION_SIGMOID, 2, 0.88079707797788244, 0.10499358540350652},
        {GDPA_ACTIVATION_TANH, 0.5, 0.46211715726000976, 0.78644773296592741},
        {GDPA_ACTIVATION_SOFTPLUS, 0, 0.69314718055994531, 0.5},
        {GDPA_ACTIVATION_SOFTPLUS, 25, 25, 1},
        {GDPA_ACTIVATION_ELU, 1.5, 1.5, 1},
        {GDPA_ACTIVATION_ELU, -1, -0.63212055882855768, 0.36787944117144232},
        {GDPA_ACTIVATION_EXP, 1, 2.7182818284590452, 2.7182818284590452},
        {GDPA_ACTIVATION_SQUARE, -3, 9, -6},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double parameter = activations[known[i].activation - 1].parameter;
        double value = reference_activation(known[i].activation, known[i].x, parameter);
        double derivative = reference_derivative(known[i].activation, known[i].x, parameter);
        if (fabs(value - known[i].value) > 1e-14 || fabs(derivative - known[i].derivative) > 1e-14) {
            fail_msg("%s(%g): %.17g, derivative %.17g", activations[known[i].activation - 1].name, known[i].x, value,
                     derivative);
        }
    }
}

static void derivatives_are_slopes(void **state)
{
    (void)state;
    for (int a = 0; a < ACTIVATION_COUNT; a++) {
        double parameter = activations[a].parameter;
        for (int step = -2400; step <= 2400; step++) {
            double x = step / 80.0 + 0.00317; /* off the kinks */
            double h = 1e-5;
            double slope = (reference_activation(activations[a].number, x + h, parameter) -
                            reference_activation(activations[a].number, x - h, parameter)) /
                           (2 * h);
            double derivative = reference_derivative(activations[a].number, x, parameter);
            if (!(fabs(slope - derivative) <= 1e-7 + 1e-8 * fabs(slope))) {
                fail_msg("%s'(%g) is %.12g, slope %.12g", activations[a].name, x, derivative, slope);
            }
        }
    }
}

static void far_arguments_give_numbers(void **state)
{
    (void)state;
    static const double far[] = {-1e30, -1e4, -800, -100, 100, 700, 1e4, 1e15};
    for (int a = 0; a < ACTIVATION_COUNT; a++) {
        for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
            if (activations[a].number == GDPA_ACTIVATION_EXP && far[i] > 700) {
                continue;
            }
            assert_true(isfinite(reference_activation(activations[a].number, far[i], activations[a].parameter)));
            assert_true(isfinite(reference_derivative(activations[a].number, far[i], activations[a].parameter)));
        }
    }
    assert_true(isnan(reference_activation(0, 1, 0)));
    assert_true(isnan(reference_derivative(99, 1, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_have_their_known_values),
        cmocka_unit_test(derivatives_are_slopes),
        cmocka_unit_test(far_arguments_give_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
