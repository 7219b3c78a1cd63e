/*
 * templates/activation: value, derivative and the packed way of a kernel, each as the generator writes it, on the host against float64. The
 * special functions of the GPU are off by all that the PTX manual allows them, in either direction.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "gen/tables.h"
#include "tests/support/half.h"
#include "tests/support/host_build.h"
#include "tests/support/reference.h"
#include "tests/templates/host_activation.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* How a kernel may be built, as far as an activation can tell. */
static const struct {
    const char *words,
        *family; /* the family of the forward; pairs of sm90 are packed, and test_packed_pair.c has those */
    int32_t dtype;
    bool hopper; /* its tanh is better than the manual says */
} builds[] = {
    {"dtype=bf16 arch=90", "portable", GDPA_DTYPE_BF16, false},
    {"dtype=bf16 arch=80", "portable", GDPA_DTYPE_BF16, false},
    {"dtype=fp16 arch=90", "portable", GDPA_DTYPE_FP16, false},
    {"dtype=bf16 arch=90", "sm90", GDPA_DTYPE_BF16, true},
    {"dtype=fp16 arch=90", "sm90", GDPA_DTYPE_FP16, true},
};

/* One activation in one build. */
struct variant {
    const struct activation_row *row;
    size_t build;
    struct host_activation functions;
};

enum { MOST_VARIANTS = 128 };

static struct {
    struct host_build build;
    struct host_approximation *approximation;
    struct variant variants[MOST_VARIANTS];
    size_t count;
} host;

static const struct host_approximation approximations[] = {
    {0, 0, 0, 0, 0}, {1, 1, 1, 1, 0}, {-1, -1, -1, -1, 0}, {1, -1, -1, 1, 0}, {-1, 1, 1, -1, 0},
};

/*
 * Special functions off by so much for what follows. The activations that gen/activations.def calls exact count on the tanh that a Hopper
 * has, in kernels for it (tests/gpu/test_tanh.c); the others keep their bounds with that of the manual.
 */
static void approximate(const struct variant *variant, const struct host_approximation *approximation)
{
    *host.approximation = *approximation;
    if (builds[variant->build].hopper && variant->row->exact) {
        host.approximation->hopper_tanh = approximation->tanh;
        host.approximation->tanh = 0;
    }
}

/* ---- the host build ---- */

static void add_variant(FILE *text, const struct variant *variant, size_t number)
{
    static const char *const files[] = {"config_default.cuh", "numeric.cuh", "activation/", NULL};
    char spec[200];
    snprintf(spec, sizeof(spec), "head_dim=64 activation=%s %s family=%s", variant->row->name,
             builds[variant->build].words, builds[variant->build].family);
    fprintf(text, "namespace variant_%zu {\n", number);
    host_build_add(&host.build, spec, NULL, files);
    fprintf(
        text,
        "static uint32_t pack(float score0, float score1, float scale, float out_scale, float param, float *epilogue)\n"
        "{\n"
        "    const ActivationConstants constants = activation_constants(scale, out_scale, param);\n"
        "    const float turn = activation_turn(constants);\n"
        "    *epilogue = constants.epilogue;\n"
        "    return activation_pack(turn * score0, turn * score1, constants);\n"
        "}\n"
        "} // namespace\n"
        "namespace pair_%zu {\n",
        number);
    snprintf(spec, sizeof(spec), "bwd head_dim=64 activation=%s %s family=portable", variant->row->name,
             builds[variant->build].words);
    host_build_add(&host.build, spec, NULL, files);
    fprintf(
        text,
        "static float value(float x, float param) { return activation_pair(x, param).value; }\n"
        "static float slope(float x, float param) { return activation_pair(x, param).slope; }\n"
        "} // namespace\n"
        "extern \"C\" { extern const host_activation functions_%zu;\n"
        "const host_activation functions_%zu = {variant_%zu::activation_value, variant_%zu::activation_derivative,\n"
        "    variant_%zu::pack, pair_%zu::value, pair_%zu::slope}; }\n",
        number, number, number, number, number, number, number);
}

static int build_all(void **state)
{
    (void)state;
    FILE *text = host_build_begin(&host.build);
    fputs("#include \"tests/templates/host_activation.hpp\"\n", text);
    struct choice_table activations = choice_table(OPTION_KIND_CHOICE_ACTIVATION);
    for (size_t i = 0; i < activations.count; ++i) {
        for (size_t build = 0; build < COUNT_OF(builds); ++build) {
            assert_true(host.count < MOST_VARIANTS);
            struct variant *variant = &host.variants[host.count];
            *variant = (struct variant){.row = activation_find(activations.rows[i].number), .build = build};
            add_variant(text, variant, host.count++);
        }
    }
    host_build_finish(&host.build);
    host.approximation = host_build_symbol(&host.build, "approximation");
    for (size_t i = 0; i < host.count; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "functions_%zu", i);
        host.variants[i].functions = *(const struct host_activation *)host_build_symbol(&host.build, name);
    }
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&host.build);
    return 0;
}

/* ---- numbers to try ---- */

enum { MOST_NUMBERS = 1 << 17 };

/* The last of them, far out, are for pairs alone: raw scores whose squares overflow come out of no type but by accident. */
static float numbers[MOST_NUMBERS];
static size_t number_count, far_count;

static void add_number(float number)
{
    assert_true(number_count < MOST_NUMBERS);
    numbers[number_count++] = number;
}

/* A number with its neighbours, on both sides of 0. */
static void add_neighbourhood(float number)
{
    for (int side = -1; side <= 1; side += 2) {
        float signed_number = (float)side * number;
        add_number(signed_number);
        add_number(nextafterf(signed_number, INFINITY));
        add_number(nextafterf(signed_number, -INFINITY));
    }
}

/* [-30, 30] densely, powers of two down to the smallest, kinks, and numbers that a score is unlikely to be. */
static int make_numbers(void **state)
{
    static const float special[] = {0,    1e-6f, 1e-20f, FLT_MIN, 1e-40f, 1,    1.5f, 2,    3,  4,
                                    4.4f, 5.5f,  8,      16,      20,     21,   60,   80,   87, 88,
                                    89,   100,   127,    128,     256,    1000, 1e4f, 65504};
    static const float far[] = {1e6f, 1e10f, 1e20f, 1e30f};
    (void)state;
    for (int i = -30 * 1024; i <= 30 * 1024; ++i) {
        add_number((float)i / 1024 + 0x1p-12f);
    }
    for (int exponent = -149; exponent < 6; ++exponent) {
        add_neighbourhood(ldexpf(1, exponent));
        add_neighbourhood(ldexpf(1.3f, exponent));
    }
    for (size_t i = 0; i < COUNT_OF(special); ++i) {
        add_neighbourhood(special[i]);
    }
    size_t near_count = number_count;
    for (size_t i = 0; i < COUNT_OF(far); ++i) {
        add_neighbourhood(far[i]);
    }
    far_count = number_count - near_count;
    number_count = near_count;
    return build_all(state);
}

/* ---- the bound ---- */

/* That of gen/activations.def, with what the rounding of fp32 itself does to a result that does not fit. */
static double bound_at(const struct activation_row *row, double x, double exact)
{
    if (row->exact) {
        return 0x1p-10 * fabs(exact) + 0x1p-14;
    }
    return row->rel * fmax(1, fabs(x)) + row->abs;
}

/* The error in parts of the bound. Results beyond the largest number of a type are infinities. */
static double share_of(double got, double exact, double bound, double largest)
{
    if (fabs(exact) > largest && fabs(got) >= largest && (got > 0) == (exact > 0)) {
        return 0;
    }
    double share = fabs(got - exact) / bound;
    return share >= 0 ? share : INFINITY; /* not a number */
}

/* The worst result of a variant so far. */
struct worst {
    double share, x, got, exact;
    struct host_approximation approximation;
};

static void keep_worst(struct worst *worst, double share, double x, double got, double exact)
{
    if (share > worst->share) {
        *worst = (struct worst){share, x, got, exact, *host.approximation};
    }
}

/* Fails when a variant went beyond the bound, and names all that did. */
static void assert_within(const struct worst worst[MOST_VARIANTS], const char *what)
{
    size_t failed = 0;
    for (size_t v = 0; v < host.count; ++v) {
        const struct host_approximation *off = &worst[v].approximation;
        if (worst[v].share > 1) {
            ++failed;
            print_error("%s of %s (%s) at %.9g is %.9g, not %.9g: %.3g times the bound (ex2, lg2, rcp, tanh off by "
                        "%g %g %g %g)\n",
                        what, host.variants[v].row->name, builds[host.variants[v].build].words, worst[v].x,
                        worst[v].got, worst[v].exact, worst[v].share, off->ex2, off->lg2, off->rcp, off->tanh);
        }
    }
    assert_int_equal(failed, 0);
}

/* fast_gelu_bf16 takes its x in the input type, and fp16 has no more. */
static bool fits(const struct variant *variant, double x)
{
    bool narrow = variant->row->number == GDPA_ACTIVATION_FAST_GELU_BF16;
    return !narrow || builds[variant->build].dtype == GDPA_DTYPE_BF16 || fabs(x) <= 65504;
}

static void check_value(const struct variant *variant, float x, float param, struct worst *worst)
{
    double exact = reference_activation(variant->row->number, (double)x, (double)param);
    double got = (double)variant->functions.value(x, param);
    double bound = bound_at(variant->row, (double)x, exact);
    keep_worst(worst, share_of(got, exact, bound, (double)FLT_MAX), (double)x, got, exact);
}

/* Hopper's kernels take those of packed pairs. */
static void check_derivative(const struct variant *variant, float x, float param, struct worst *worst)
{
    if (builds[variant->build].hopper) {
        return;
    }
    double exact = reference_derivative(variant->row->number, (double)x, (double)param);
    double got = (double)variant->functions.derivative(x, param);
    double bound = bound_at(variant->row, (double)x, exact);
    keep_worst(worst, share_of(got, exact, bound, (double)FLT_MAX), (double)x, got, exact);
}

static void check_pair_value(const struct variant *variant, float x, float param, struct worst *worst)
{
    double exact = reference_activation(variant->row->number, (double)x, (double)param);
    double got = (double)variant->functions.pair_value(x, param);
    keep_worst(worst, share_of(got, exact, bound_at(variant->row, (double)x, exact), (double)FLT_MAX), (double)x, got,
               exact);
}

static void check_pair_slope(const struct variant *variant, float x, float param, struct worst *worst)
{
    double exact = reference_derivative(variant->row->number, (double)x, (double)param);
    double got = (double)variant->functions.pair_slope(x, param);
    keep_worst(worst, share_of(got, exact, bound_at(variant->row, (double)x, exact), (double)FLT_MAX), (double)x, got,
               exact);
}

/* ---- tests ---- */

typedef void (*check_fn)(const struct variant *variant, float x, float param, struct worst *worst);

static void check_everywhere(check_fn check, const char *what, size_t count)
{
    struct worst worst[MOST_VARIANTS] = {{0}};
    for (size_t a = 0; a < COUNT_OF(approximations); ++a) {
        for (size_t v = 0; v < host.count; ++v) {
            const struct variant *variant = &host.variants[v];
            approximate(variant, &approximations[a]);
            float param = (float)variant->row->param_default;
            for (size_t i = 0; i < count; ++i) {
                if (fits(variant, (double)numbers[i])) {
                    check(variant, numbers[i], param, &worst[v]);
                }
            }
        }
    }
    assert_within(worst, what);
}

static void values_are_within_their_bounds(void **state)
{
    (void)state;
    check_everywhere(check_value, "value", number_count);
}

static void derivatives_are_within_their_bounds(void **state)
{
    (void)state;
    check_everywhere(check_derivative, "derivative", number_count);
}

/* What a backward kernel calls: the same function, its true derivative, the same bounds. */
static void pairs_are_within_the_bounds_of_both(void **state)
{
    (void)state;
    check_everywhere(check_pair_value, "value of the pair", number_count + far_count);
    check_everywhere(check_pair_slope, "slope of the pair", number_count + far_count);
    for (size_t v = 0; v < host.count; ++v) {
        float param = (float)host.variants[v].row->param_default;
        assert_true(isnan(host.variants[v].functions.pair_value(NAN, param)));
    }
}

/* leaky_relu and elu have one. */
static void the_parameter_is_used(void **state)
{
    (void)state;
    static const float params[] = {0, 0.3f, 1, -2.5f, 40};
    struct worst values[MOST_VARIANTS] = {{0}}, derivatives[MOST_VARIANTS] = {{0}};
    size_t tried = 0;
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        approximate(variant, &approximations[1]);
        for (size_t p = 0; p < COUNT_OF(params) && variant->row->param_default != 0; ++p, ++tried) {
            for (size_t i = 0; i < number_count; i += 5) {
                check_value(variant, numbers[i], params[p], &values[v]);
                check_derivative(variant, numbers[i], params[p], &derivatives[v]);
                check_pair_value(variant, numbers[i], params[p], &values[v]);
                check_pair_slope(variant, numbers[i], params[p], &derivatives[v]);
            }
        }
    }
    assert_int_equal(tried, 2 * COUNT_OF(builds) * COUNT_OF(params));
    assert_within(values, "value with another parameter");
    assert_within(derivatives, "derivative with another parameter");
}

/* An infinite score gives the limit; where f is a product with 0 there, it may give NaN, as in PyTorch. */
static void what_is_not_a_number_stays_so_and_infinities_give_limits(void **state)
{
    (void)state;
    *host.approximation = approximations[0];
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        float param = (float)variant->row->param_default;
        assert_true(isnan(variant->functions.value(NAN, param)));
        for (int side = -1; side <= 1; side += 2) {
            double limit = reference_activation(variant->row->number, side * 1e30, (double)param);
            double got = (double)variant->functions.value((float)side * INFINITY, param);
            bool is_limit = fabs(limit) > 1e20 ? got == copysign((double)INFINITY, limit) : got == limit;
            if (!is_limit && !(side < 0 && limit == 0 && isnan(got))) {
                fail_msg("%s (%s) of %sinf is %g", variant->row->name, builds[variant->build].words,
                         side < 0 ? "-" : "", got);
            }
        }
    }
}

/* ---- the way of a kernel ---- */

static double unpack(const struct variant *variant, uint32_t packed, int half)
{
    uint16_t bits = (uint16_t)(packed >> 16 * half);
    return builds[variant->build].dtype == GDPA_DTYPE_BF16 ? bf16_to_double(bits) : fp16_to_double(bits);
}

/* P of two scores times the epilogue against f(scale * score), within the bound and the rounding of P. */
static void check_packed(const struct variant *variant, float score, float scale, float param, struct worst *worst)
{
    float epilogue = 0;
    uint32_t packed = variant->functions.pack(score, -score, scale, 1, param, &epilogue);
    int32_t dtype = builds[variant->build].dtype;
    double largest = (dtype == GDPA_DTYPE_BF16 ? 0x1.fep127 : 65504) * fabs((double)epilogue);
    for (int half = 0; half < 2; ++half) {
        double x = (double)scale * (double)(half == 0 ? score : -score);
        double exact = reference_activation(variant->row->number, x, (double)param);
        double weight = unpack(variant, packed, half);
        double bound = bound_at(variant->row, x, exact);
        bound += isfinite(weight) ? dtype_ulp(dtype, weight) / 2 * fabs((double)epilogue) : 0;
        double got = weight * (double)epilogue;
        keep_worst(worst, share_of(got, exact, bound, largest), x, got, exact);
    }
}

static void packed_weights_are_those_of_the_scaled_score(void **state)
{
    (void)state;
    static const float scales[] = {1, 0.0884f, -0.5f, 0, 8, 1e-3f, -1};
    struct worst worst[MOST_VARIANTS] = {{0}};
    for (size_t a = 0; a < 3; ++a) {
        for (size_t v = 0; v < host.count; ++v) {
            const struct variant *variant = &host.variants[v];
            approximate(variant, &approximations[a]);
            for (size_t s = 0; s < COUNT_OF(scales); ++s) {
                for (size_t i = a; i < number_count; i += 3) {
                    float score = scales[s] == 0 ? numbers[i] : numbers[i] / scales[s];
                    check_packed(variant, score, scales[s], (float)variant->row->param_default, &worst[v]);
                }
            }
        }
    }
    assert_within(worst, "weight times epilogue");
}

/* Where the scale is 0 or tiny, raw scores may be as large as an fp32 number gets, and a power of one overflow where f does not. */
static void small_scales_take_large_scores(void **state)
{
    (void)state;
    static const float scales[] = {0, -0.0f, 1e-5f, -1e-5f, 1e-7f, -1e-7f, 1e-11f, -1e-11f};
    static const float scores[] = {1, 1e10f, 1e18f, 1e19f, 2e19f, 1e25f, 1e30f, 1e36f, 1.6e38f};
    struct worst worst[MOST_VARIANTS] = {{0}};
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        approximate(variant, &approximations[0]);
        for (size_t i = 0; i < COUNT_OF(scales) * COUNT_OF(scores); ++i) {
            const float scale = scales[i / COUNT_OF(scores)], score = scores[i % COUNT_OF(scores)];
            if (fits(variant, (double)(scale * score)) && fabsf(scale * score) < 1e5f) {
                check_packed(variant, score, scale, (float)variant->row->param_default, &worst[v]);
            }
        }
    }
    assert_within(worst, "weight times epilogue with a small scale");
}

static void the_two_halves_of_a_pair_do_not_mix(void **state)
{
    (void)state;
    static const float scores[] = {0, -0.0f, 1, -1, 2.5f, -30, 30, 1e-6f, INFINITY, NAN};
    *host.approximation = approximations[0];
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        float param = (float)variant->row->param_default, epilogue;
        for (size_t i = 0; i < COUNT_OF(scores) * COUNT_OF(scores); ++i) {
            float low = scores[i % COUNT_OF(scores)], high = scores[i / COUNT_OF(scores)];
            uint32_t both = variant->functions.pack(low, high, 0.7f, 1, param, &epilogue);
            uint32_t lows = variant->functions.pack(low, low, 0.7f, 1, param, &epilogue);
            uint32_t highs = variant->functions.pack(high, high, 0.7f, 1, param, &epilogue);
            assert_int_equal(both, (lows & 0xffff) | (highs & 0xffff0000));
            assert_true(!isnan(low) || isnan(unpack(variant, both, 0)));
        }
    }
}

static void the_epilogue_is_proportional_to_the_output_scale(void **state)
{
    (void)state;
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        float one, three, none;
        uint32_t packed = variant->functions.pack(1, 2, 0.5f, 1, 1, &one);
        assert_int_equal(variant->functions.pack(1, 2, 0.5f, 3, 1, &three), packed);
        assert_int_equal(variant->functions.pack(1, 2, 0.5f, 0, 1, &none), packed);
        assert_true(three == 3 * one && none == 0 && one != 0);
    }
}

/* ---- the test itself ---- */

static bool uses_special_functions(const struct variant *variant)
{
    static const int32_t plain[] = {GDPA_ACTIVATION_IDENTITY,   GDPA_ACTIVATION_RELU,      GDPA_ACTIVATION_RELU_SQUARE,
                                    GDPA_ACTIVATION_LEAKY_RELU, GDPA_ACTIVATION_HARDSWISH, GDPA_ACTIVATION_SQUARE};
    for (size_t i = 0; i < COUNT_OF(plain); ++i) {
        if (variant->row->number == plain[i]) {
            return false;
        }
    }
    return true;
}

/* With special functions that are far worse than the manual says, each activation that has one leaves its bound. */
static void worse_special_functions_are_noticed(void **state)
{
    (void)state;
    *host.approximation = (struct host_approximation){1 << 18, 1 << 18, 1 << 20, 128, 0};
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        struct worst worst = {0};
        for (size_t i = 0; i < number_count; i += 16) {
            check_value(variant, numbers[i], (float)variant->row->param_default, &worst);
        }
        if ((worst.share > 1) != uses_special_functions(variant)) {
            fail_msg("%s (%s): %g", variant->row->name, builds[variant->build].words, worst.share);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_within_their_bounds),
        cmocka_unit_test(derivatives_are_within_their_bounds),
        cmocka_unit_test(pairs_are_within_the_bounds_of_both),
        cmocka_unit_test(the_parameter_is_used),
        cmocka_unit_test(what_is_not_a_number_stays_so_and_infinities_give_limits),
        cmocka_unit_test(packed_weights_are_those_of_the_scaled_score),
        cmocka_unit_test(small_scales_take_large_scores),
        cmocka_unit_test(the_two_halves_of_a_pair_do_not_mix),
        cmocka_unit_test(the_epilogue_is_proportional_to_the_output_scale),
        cmocka_unit_test(worse_special_functions_are_noticed),
    };
    return cmocka_run_group_tests(tests, make_numbers, remove_all);
}
