/*
 * The activations and their derivatives in float64, as the table in gen/activations.def states them. See reference.h.
 *
 * Written so that nothing cancels or overflows on the way: the small tails of gelu and silu are right to the last bits.
 */
#include <math.h>
#include <stddef.h>

#include "tests/support/reference.h"

static double sigmoid(double x)
{
    if (x >= 0) {
        return 1 / (1 + exp(-x));
    }
    double e = exp(x);
    return e / (1 + e);
}

/* tanh's argument in gelu_tanh, and its derivative: sqrt(2/pi) (x + 0.044715 x^3). */
static const double gelu_slope = 0.79788456080286535588;
static const double gelu_cubic = 0.044715;

static double gelu_tanh(double x)
{
    /* 1 + tanh(u) = 2 sigmoid(2u) keeps the small negative tail that 1 + tanh would cancel. */
    return x * sigmoid(2 * gelu_slope * (x + gelu_cubic * x * x * x));
}

static double gelu_tanh_derivative(double x)
{
    double s = sigmoid(2 * gelu_slope * (x + gelu_cubic * x * x * x));
    return s + 2 * x * s * (1 - s) * gelu_slope * (1 + 3 * gelu_cubic * x * x);
}

/* Phi(x), the normal distribution function. */
static double normal_below(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

double reference_activation(int32_t activation, double x, double parameter)
{
    switch (activation) {
    case GDPA_ACTIVATION_IDENTITY:
        return x;
    case GDPA_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case GDPA_ACTIVATION_RELU_SQUARE:
        return x > 0 ? x * x : 0;
    case GDPA_ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : parameter * x;
    case GDPA_ACTIVATION_GELU:
        return x * normal_below(x);
    case GDPA_ACTIVATION_GELU_TANH:
    case GDPA_ACTIVATION_FAST_GELU:
    case GDPA_ACTIVATION_FAST_GELU_BF16:
        return gelu_tanh(x);
    case GDPA_ACTIVATION_SILU:
    case GDPA_ACTIVATION_FAST_SILU:
        return x * sigmoid(x);
    case GDPA_ACTIVATION_HARDSWISH:
        return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    case GDPA_ACTIVATION_SIGMOID:
        return sigmoid(x);
    case GDPA_ACTIVATION_TANH:
        return tanh(x);
    case GDPA_ACTIVATION_SOFTPLUS:
        return x > 20 ? x : log1p(exp(x));
    case GDPA_ACTIVATION_ELU:
        return x > 0 ? x : parameter * expm1(x);
    case GDPA_ACTIVATION_EXP:
        return exp(x);
    case GDPA_ACTIVATION_SQUARE:
        return x * x;
    default:
        return (double)NAN;
    }
}

double reference_derivative(int32_t activation, double x, double parameter)
{
    double s;
    switch (activation) {
    case GDPA_ACTIVATION_IDENTITY:
        return 1;
    case GDPA_ACTIVATION_RELU:
        return x > 0;
    case GDPA_ACTIVATION_RELU_SQUARE:
        return x > 0 ? 2 * x : 0;
    case GDPA_ACTIVATION_LEAKY_RELU:
        return x > 0 ? 1 : parameter;
    case GDPA_ACTIVATION_GELU:
        return normal_below(x) + x * 0.39894228040143267794 * exp(-x * x / 2);
    case GDPA_ACTIVATION_GELU_TANH:
    case GDPA_ACTIVATION_FAST_GELU:
    case GDPA_ACTIVATION_FAST_GELU_BF16:
        return gelu_tanh_derivative(x);
    case GDPA_ACTIVATION_SILU:
    case GDPA_ACTIVATION_FAST_SILU:
        s = sigmoid(x);
        return s * (1 + x * (1 - s));
    case GDPA_ACTIVATION_HARDSWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case GDPA_ACTIVATION_SIGMOID:
        s = sigmoid(x);
        return s * (1 - s);
    case GDPA_ACTIVATION_TANH:
        s = tanh(x);
        return 1 - s * s;
    case GDPA_ACTIVATION_SOFTPLUS:
        return x > 20 ? 1 : sigmoid(x);
    case GDPA_ACTIVATION_ELU:
        return x > 0 ? 1 : parameter * exp(x);
    case GDPA_ACTIVATION_EXP:
        return exp(x);
    case GDPA_ACTIVATION_SQUARE:
        return 2 * x;
    default:
        return (double)NAN;
    }
}

double reference_inexactness(int32_t activation)
{
    switch (activation) {
    case GDPA_ACTIVATION_GELU:
    case GDPA_ACTIVATION_GELU_TANH:
    case GDPA_ACTIVATION_SILU:
    case GDPA_ACTIVATION_SIGMOID:
    case GDPA_ACTIVATION_TANH:
    case GDPA_ACTIVATION_SOFTPLUS:
    case GDPA_ACTIVATION_ELU:
        return 0x1p-14;
    default:
        return 0;
    }
}

/* Where derivatives jump. By how much, reference_derivative says: an elu with parameter 1 does not jump at all. */
static const struct {
    int32_t activation;
    double at;
} kinks[] = {
    {GDPA_ACTIVATION_RELU, 0},       {GDPA_ACTIVATION_LEAKY_RELU, 0}, {GDPA_ACTIVATION_ELU, 0},
    {GDPA_ACTIVATION_HARDSWISH, -3}, {GDPA_ACTIVATION_HARDSWISH, 3},
};

double reference_jump(int32_t activation, double x, double window, double parameter)
{
    double jump = 0;
    for (size_t i = 0; i < sizeof kinks / sizeof kinks[0]; i++) {
        double at = kinks[i].at;
        /* A score near 3 was rounded to fp32 there, after the product with the scale and once more before it. */
        if (kinks[i].activation == activation && fabs(x - at) < window + 0x1p-23 * fabs(at)) {
            jump += fabs(reference_derivative(activation, nextafter(at, (double)INFINITY), parameter) -
                         reference_derivative(activation, nextafter(at, -(double)INFINITY), parameter));
        }
    }
    return jump;
}

bool reference_has_jump(int32_t activation, double parameter)
{
    return reference_jump(activation, 0, (double)INFINITY, parameter) > 0;
}

double reference_window(int dim, double squares)
{
    return 8 * 0x1p-24 * sqrt(dim * squares);
}
