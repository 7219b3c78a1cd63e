/*
 * templates/activation/packed_pair and what it stands on: P and dS of the Hopper backward, as the generator writes them, on the host against
 * float64. The tanh is off by what was measured on that GPU, the other special functions by what the PTX manual allows, in either direction.
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
#include "tests/templates/host_packed_pair.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* One activation in one type. */
struct variant {
    const struct activation_row *row;
    int32_t dtype;
    struct host_packed_pair functions;
};

enum { MOST_VARIANTS = 64, MOST_NUMBERS = 1 << 15 };

static struct {
    struct host_build build;
    struct host_approximation *approximation;
    struct variant variants[MOST_VARIANTS];
    size_t count;
    float numbers[MOST_NUMBERS];
    size_t number_count;
} host;

static const struct host_approximation approximations[] = {
    {0, 0, 0, 0, 0}, {1, 1, 1, 0, 1}, {-1, -1, -1, 0, -1}, {1, -1, -1, 0, 1}, {-1, 1, 1, 0, -1},
};

/* ---- the host build ---- */

static void add_variant(FILE *text, const struct variant *variant, size_t number)
{
    static const char *const files[] = {"config_default.cuh", "params.h",    "numeric.cuh",
                                        "gradient.cuh",       "activation/", NULL};
    char spec[200];
    snprintf(spec, sizeof(spec), "bwd head_dim=64 activation=%s dtype=%s arch=90a family=sm90", variant->row->name,
             dtype_name(variant->dtype));
    fprintf(text, "namespace variant_%zu {\n", number);
    host_build_add(&host.build, spec, NULL, files);
    fprintf(
        text,
        "static PairConstants constants;\n"
        "static void prepare(float scale, float out_scale, float param, float *weight, float *slope)\n"
        "{\n"
        "    gdpa_bwd_params params = {};\n"
        "    params.scale = scale;\n"
        "    params.out_scale = out_scale;\n"
        "    params.activation_param = param;\n"
        "    constants = pair_constants(params);\n"
        "    *weight = constants.weight_epilogue;\n"
        "    *slope = constants.slope_epilogue;\n"
        "}\n"
        "static void pair(float score0, float score1, uint32_t *weights, uint32_t *slopes)\n"
        "{\n"
        "    packed_pair(score0, score1, constants, *weights, *slopes);\n"
        "}\n"
        "static uint32_t gradient(uint32_t slopes, float product0, float product1)\n"
        "{\n"
        "    return packed_gradient(slopes, product0, product1, constants);\n"
        "}\n"
        "} // namespace\n"
        "extern \"C\" { extern const host_packed_pair functions_%zu;\n"
        "const host_packed_pair functions_%zu = {variant_%zu::prepare, variant_%zu::pair, variant_%zu::gradient}; }\n",
        number, number, number, number, number);
}

static void build_all(void)
{
    static const int32_t dtypes[] = {GDPA_DTYPE_BF16, GDPA_DTYPE_FP16};
    FILE *text = host_build_begin(&host.build);
    fputs("#include \"tests/templates/host_packed_pair.hpp\"\n", text);
    struct choice_table activations = choice_table(OPTION_KIND_CHOICE_ACTIVATION);
    for (size_t i = 0; i < 2 * activations.count; ++i) {
        assert_true(host.count < MOST_VARIANTS);
        struct variant *variant = &host.variants[host.count];
        *variant = (struct variant){.row = activation_find(activations.rows[i / 2].number), .dtype = dtypes[i % 2]};
        add_variant(text, variant, host.count++);
    }
    host_build_finish(&host.build);
    host.approximation = host_build_symbol(&host.build, "approximation");
    for (size_t i = 0; i < host.count; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "functions_%zu", i);
        host.variants[i].functions = *(const struct host_packed_pair *)host_build_symbol(&host.build, name);
    }
}

static int remove_all(void **state)
{
    (void)state;
    host_build_end(&host.build);
    return 0;
}

/* ---- numbers to try ---- */

static void add_number(float number)
{
    assert_true(host.number_count + 2 <= MOST_NUMBERS);
    host.numbers[host.number_count++] = number;
    host.numbers[host.number_count++] = -number;
}

/* Scaled scores: [-30, 30], both sides of kinks, powers of two, and far out: where squares overflow, and a number times such a square. */
static int make_numbers(void **state)
{
    (void)state;
    static const float special[] = {0,    1e-30F, 1e-20F, 1e-6F, 3,     20,    88,    100,   127,   300,
                                    1000, 65504,  70000,  1e6F,  1e10F, 1e19F, 3e19F, 1e20F, 1e30F, 1e35F};
    for (int i = 0; i <= 30 * 256; ++i) {
        add_number((float)i / 256 + 0x1p-10F);
    }
    for (int exponent = -40; exponent < 6; ++exponent) {
        add_number(ldexpf(1, exponent));
        add_number(ldexpf(1.4F, exponent));
    }
    for (size_t i = 0; i < COUNT_OF(special); ++i) {
        add_number(special[i]);
        add_number(nextafterf(special[i], INFINITY));
        add_number(nextafterf(special[i], -INFINITY));
    }
    build_all();
    return 0;
}

/* ---- bounds ---- */

/* Of section 5: f, and f' alike. */
static double bound_at(const struct activation_row *row, double x, double exact)
{
    return row->exact ? 0x1p-10 * fabs(exact) + 0x1p-14 : row->rel * fmax(1, fabs(x)) + row->abs;
}

/* Half a unit in the last place of the type, at a number that need not be one of its. */
static double rounding(int32_t dtype, double number)
{
    return dtype_ulp(dtype, number) / 2;
}

struct worst {
    double share, score, scale, got, exact;
    struct host_approximation approximation;
};

static void keep_worst(struct worst *worst, double error, double bound, double score, double scale, double got,
                       double exact)
{
    double share = error / bound;
    share = share >= 0 ? share : (double)INFINITY; /* not a number */
    if (share > worst->share) {
        *worst = (struct worst){share, score, scale, got, exact, *host.approximation};
    }
}

static void assert_within(const struct worst worst[MOST_VARIANTS], const char *what)
{
    size_t failed = 0;
    for (size_t v = 0; v < host.count; ++v) {
        const struct worst *w = &worst[v];
        if (w->share > 1) {
            ++failed;
            print_error("%s of %s, %s, at score %.9g scale %g (x %.6g) is %.9g, not %.9g: %.3g times the bound (ex2 "
                        "%g, tanh %g)\n",
                        what, host.variants[v].row->name, dtype_name(host.variants[v].dtype), w->score, w->scale,
                        w->score * w->scale, w->got, w->exact, w->share, w->approximation.ex2,
                        w->approximation.hopper_tanh);
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- one call ---- */

struct call {
    float scale, out_scale, param;
    float weight_epilogue, slope_epilogue;
};

static double largest_of(int32_t dtype)
{
    return dtype == GDPA_DTYPE_BF16 ? 0x1.fep127 : 65504;
}

static double unpack(const struct variant *variant, uint32_t packed, int half)
{
    uint16_t bits = (uint16_t)(packed >> 16 * half);
    return variant->dtype == GDPA_DTYPE_BF16 ? bf16_to_double(bits) : fp16_to_double(bits);
}

/* P times its epilogue against out_scale f(x), within the bound and the rounding of P; what overflows is infinite. */
static void check_weight(const struct variant *variant, const struct call *call, float score, double weight,
                         struct worst *worst)
{
    double x = (double)call->scale * (double)score, epilogue = (double)call->weight_epilogue;
    double out_scale = (double)call->out_scale;
    double exact = reference_activation(variant->row->number, x, (double)call->param);
    double got = weight * epilogue / out_scale, most = largest_of(variant->dtype) * fabs(epilogue / out_scale);
    if (fabs(exact) >= most * (1 - 0x1p-8) && fabs(weight) >= largest_of(variant->dtype) * (1 - 0x1p-8) &&
        (got > 0) == (exact > 0)) {
        return;
    }
    double bound = bound_at(variant->row, x, exact) + rounding(variant->dtype, weight) * fabs(epilogue / out_scale);
    keep_worst(worst, fabs(got - exact), bound, (double)score, (double)call->scale, got, exact);
}

/*
 * dS times its epilogue against scale out_scale f'(x) dP, within the bound and three roundings to the type: of dP, of the slope (f', or
 * 2 f' - 1 where that is what is kept) and of dS.
 */
static void check_gradient(const struct variant *variant, const struct call *call, float score, float product,
                           double gradient, struct worst *worst)
{
    double x = (double)call->scale * (double)score, factor = (double)call->scale * (double)call->out_scale;
    double slope = reference_derivative(variant->row->number, x, (double)call->param);
    double exact = factor * slope * (double)product, got = gradient * (double)call->slope_epilogue;
    double most = largest_of(variant->dtype);
    /* At a kink either side is right; for relu it has the width of what bf16 cannot tell from 0. */
    if (reference_jump(variant->row->number, x, 0x1p-133, (double)call->param) > 0) {
        return;
    }
    if (fabs(slope) > most * (1 - 0x1p-8) || fabs(slope * (double)product) > most * (1 - 0x1p-8)) {
        return;
    }
    double inner = fabs(factor) < 1 && variant->dtype == GDPA_DTYPE_FP16 ? fabs(factor) : 1;
    double of_slope = fmax(rounding(variant->dtype, slope), rounding(variant->dtype, 2 * slope - 1) / 2);
    double of_product = rounding(variant->dtype, (double)product * inner) / inner;
    double bound = (bound_at(variant->row, x, slope) + of_slope) * (fabs((double)product) + of_product) +
                   fabs(slope) * of_product +
                   rounding(variant->dtype, gradient) * fmax(1, fabs((double)call->slope_epilogue / factor));
    keep_worst(worst, fabs(got - exact), bound * fabs(factor), (double)score, (double)call->scale, got, exact);
}

static void prepare(const struct variant *variant, struct call *call)
{
    variant->functions.prepare(call->scale, call->out_scale, call->param, &call->weight_epilogue,
                               &call->slope_epilogue);
}

/* ---- tests ---- */

static const float scales[] = {1, 0.0884F, -0.5F, 8, 1e-3F, -1};

/* Visits every variant with every scale, approximation and number. */
static void for_calls(void (*visit)(size_t v, const struct call *call, float score, void *user), void *user)
{
    for (size_t a = 0; a < COUNT_OF(approximations); ++a) {
        *host.approximation = approximations[a];
        for (size_t n = 0; n < host.count * COUNT_OF(scales); ++n) {
            const struct variant *variant = &host.variants[n / COUNT_OF(scales)];
            struct call call = {.scale = scales[n % COUNT_OF(scales)], .out_scale = n % 2 == 0 ? 1 : -0.375F};
            call.param = (float)variant->row->param_default * (n % 3 == 0 ? 1 : -0.3F);
            prepare(variant, &call);
            for (size_t i = a; i < host.number_count; i += 2) {
                visit(n / COUNT_OF(scales), &call, host.numbers[i] / call.scale, user);
            }
        }
    }
}

struct all_worst {
    struct worst weights[MOST_VARIANTS], gradients[MOST_VARIANTS];
};

static void visit_pair(size_t v, const struct call *call, float score, void *user)
{
    struct all_worst *worst = user;
    const struct variant *variant = &host.variants[v];
    static const float products[][2] = {{1, -1}, {-3.1F, 0.011F}};
    uint32_t weights, slopes;
    variant->functions.pair(score, -score, &weights, &slopes);
    for (int half = 0; half < 2; ++half) {
        check_weight(variant, call, half == 0 ? score : -score, unpack(variant, weights, half), &worst->weights[v]);
    }
    for (size_t p = 0; p < COUNT_OF(products); ++p) {
        uint32_t gradients = variant->functions.gradient(slopes, products[p][0], products[p][1]);
        for (int half = 0; half < 2; ++half) {
            check_gradient(variant, call, half == 0 ? score : -score, products[p][half],
                           unpack(variant, gradients, half), &worst->gradients[v]);
        }
    }
}

static void weights_and_gradients_are_within_the_bounds_and_roundings(void **state)
{
    (void)state;
    static struct all_worst worst;
    for_calls(visit_pair, &worst);
    assert_within(worst.weights, "P");
    assert_within(worst.gradients, "dS");
}

/* S is 0 then: f(0) and nothing for dQ and dK, whatever the raw scores are. */
static void scale_zero_gives_f_of_zero_and_no_gradient(void **state)
{
    (void)state;
    *host.approximation = approximations[0];
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        for (size_t i = 0; i < host.number_count; ++i) {
            struct call call = {.scale = 0, .out_scale = 2, .param = (float)variant->row->param_default};
            prepare(variant, &call);
            uint32_t weights, slopes;
            variant->functions.pair(host.numbers[i], 1, &weights, &slopes);
            double exact = 2 * reference_activation(variant->row->number, 0, (double)call.param);
            double got = unpack(variant, weights, 0) * (double)call.weight_epilogue;
            double gradient = unpack(variant, variant->functions.gradient(slopes, 2.5F, 1), 0);
            if (!(fabs(got - exact) <= 0x1p-8) || !(gradient * (double)call.slope_epilogue == 0)) {
                fail_msg("%s, %s at score %g: P %g, not %g; dS %g times %g", variant->row->name,
                         dtype_name(variant->dtype), (double)host.numbers[i], got, exact, gradient,
                         (double)call.slope_epilogue);
            }
        }
    }
}

static void the_two_halves_of_a_pair_do_not_mix(void **state)
{
    (void)state;
    static const float scores[] = {0, -0.0F, 1, -1, 2.5F, -30, 30, 1e-6F, 1e20F};
    enum { SCORES = COUNT_OF(scores) };
    *host.approximation = approximations[0];
    for (size_t n = 0; n < host.count * SCORES * SCORES; ++n) {
        const struct variant *variant = &host.variants[n / (SCORES * SCORES)];
        struct call call = {.scale = 0.7F, .out_scale = 1, .param = (float)variant->row->param_default};
        prepare(variant, &call);
        float low = scores[n % SCORES], high = scores[n / SCORES % SCORES];
        uint32_t weights[3], slopes[3], gradients[3];
        variant->functions.pair(low, high, &weights[0], &slopes[0]);
        variant->functions.pair(low, low, &weights[1], &slopes[1]);
        variant->functions.pair(high, high, &weights[2], &slopes[2]);
        gradients[0] = variant->functions.gradient(slopes[0], 3, -7);
        gradients[1] = variant->functions.gradient(slopes[1], 3, 3);
        gradients[2] = variant->functions.gradient(slopes[2], -7, -7);
        assert_int_equal(weights[0], (weights[1] & 0xffff) | (weights[2] & 0xffff0000));
        assert_int_equal(gradients[0], (gradients[1] & 0xffff) | (gradients[2] & 0xffff0000));
    }
}

/* A tanh as bad as the manual allows shows in the exact functions: that is why it is measured. */
static void a_tanh_of_the_manual_would_not_do(void **state)
{
    (void)state;
    static struct all_worst worst;
    for (size_t v = 0; v < host.count; ++v) {
        const struct variant *variant = &host.variants[v];
        int32_t number = variant->row->number;
        struct call call = {.scale = 1, .out_scale = 1, .param = (float)variant->row->param_default};
        *host.approximation = (struct host_approximation){0, 0, 0, -1, 0};
        prepare(variant, &call);
        for (size_t i = 0; i < host.number_count; ++i) {
            visit_pair(v, &call, host.numbers[i], &worst);
        }
        if (number == GDPA_ACTIVATION_SILU || number == GDPA_ACTIVATION_GELU_TANH) {
            assert_true(worst.weights[v].share > 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_gradients_are_within_the_bounds_and_roundings),
        cmocka_unit_test(scale_zero_gives_f_of_zero_and_no_gradient),
        cmocka_unit_test(the_two_halves_of_a_pair_do_not_mix),
        cmocka_unit_test(a_tanh_of_the_manual_would_not_do),
    };
    return cmocka_run_group_tests(tests, make_numbers, remove_all);
}
