/*
 * What the reference allows gradients where f' jumps: as much as one pair of query and key on the other side of the kink makes, where fp32 cannot
 * tell the side, and nothing elsewhere.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "include/gdpajit.h"
#include "tests/support/compare.h"
#include "tests/support/half.h"
#include "tests/support/random.h"
#include "tests/support/reference.h"
#include "tools/verify_case.h"
#include "tools/verify_worker.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct reference_gradients none = {NULL, NULL, NULL};

/* Every kink there is, and the jump by the formulas of the specification. */
static const struct kink {
    int32_t activation;
    float parameter;
    double at, jump;
} kinks[] = {
    {GDPA_ACTIVATION_RELU, 0, 0, 1},         {GDPA_ACTIVATION_LEAKY_RELU, 0.25F, 0, 0.75},
    {GDPA_ACTIVATION_LEAKY_RELU, -1, 0, 2},  {GDPA_ACTIVATION_ELU, 1.5F, 0, 0.5},
    {GDPA_ACTIVATION_HARDSWISH, 0, -3, 0.5}, {GDPA_ACTIVATION_HARDSWISH, 0, 3, 0.5},
};

static const struct {
    int32_t number;
    double parameter;
    const char *name;
} activations[] = {
#define ACTIVATION(suffix, number, name, aliases, file, kind, rel, abs, param_default, formula, derivative)            \
    {number, param_default, name},
#include "gen/activations.def"
#undef ACTIVATION
};

/* ---- the table of kinks ---- */

/* No derivative jumps where the reference does not know it: steps of 2^-12 change the others by little. */
static void derivatives_jump_at_the_kinks_and_nowhere_else(void **state)
{
    (void)state;
    for (size_t a = 0; a < COUNT_OF(activations); a++) {
        int32_t f = activations[a].number;
        for (double parameter = activations[a].parameter; parameter < 3; parameter += 2.5) {
            for (int i = -30 * 4096; i < 30 * 4096; i++) {
                double x = i / 4096.0 + 0x1p-13;
                double rise = reference_derivative(f, x + 0x1p-12, parameter) - reference_derivative(f, x, parameter);
                double steep = f == GDPA_ACTIVATION_EXP ? 0x1p-11 * exp(x) : parameter > 1 ? 0x1p-10 : 0x1p-11;
                double jump = reference_jump(f, x + 0x1p-13, 0x1p-13, parameter);
                if (fabs(fabs(rise) - jump) > steep) {
                    fail_msg("%s: f' rises by %g behind %g, jump %g", activations[a].name, rise, x, jump);
                }
            }
        }
    }
    assert_false(reference_has_jump(GDPA_ACTIVATION_ELU, 1));
    assert_false(reference_has_jump(GDPA_ACTIVATION_LEAKY_RELU, 1));
    for (size_t i = 0; i < COUNT_OF(kinks); i++) {
        double parameter = (double)kinks[i].parameter;
        assert_true(reference_has_jump(kinks[i].activation, parameter));
        assert_true(fabs(reference_jump(kinks[i].activation, kinks[i].at, 0x1p-20, parameter) - kinks[i].jump) < 1e-9);
    }
}

/* ---- the window ---- */

static double truncated(double value, int exponent)
{
    return ldexp(trunc(ldexp(value, 23 - exponent)), exponent - 23);
}

/*
 * A sum as tensor cores make it, with no bit more than they have: 16 products at a time and the sum so far, each cut off 23 bits below
 * the largest, and the result once more.
 */
static double tensor_core_sum(const double *products, int count)
{
    double sum = 0;
    for (int first = 0; first < count; first += 16) {
        double largest = fabs(sum);
        for (int i = first; i < first + 16 && i < count; i++) {
            largest = fmax(largest, fabs(products[i]));
        }
        int exponent = largest > 0 ? ilogb(largest) : 0;
        double total = truncated(sum, exponent);
        for (int i = first; i < first + 16 && i < count; i++) {
            total += truncated(products[i], exponent);
        }
        sum = total != 0 ? truncated(total, ilogb(total)) : 0;
    }
    return sum;
}

static double plain_sum(const double *products, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++) {
        sum += (float)products[i];
    }
    return (double)sum;
}

static void sums_of_tensor_cores_are_within_the_window(void **state)
{
    (void)state;
    static const int dims[] = {8, 64, 128, 256};
    struct random_source source = {.seed = 5};
    for (size_t d = 0; d < COUNT_OF(dims); d++) {
        double furthest = 0;
        for (int n = 0; n < 20000; n++) {
            double products[256];
            double exact = 0, squares = 0;
            for (int i = 0; i < dims[d]; i++) {
                products[i] = dtype_round(GDPA_DTYPE_BF16, random_normal(&source)) *
                              dtype_round(GDPA_DTYPE_BF16, random_normal(&source));
                exact += products[i];
                squares += products[i] * products[i];
            }
            double window = reference_window(dims[d], squares);
            furthest = fmax(furthest, fabs(tensor_core_sum(products, dims[d]) - exact) / window);
            furthest = fmax(furthest, fabs(plain_sum(products, dims[d]) - exact) / window);
        }
        if (!(furthest < 0.75 && furthest > 0.02)) { /* safe, and not far wider than it must be */
            fail_msg("head dimension %d: up to %g of the window", dims[d], furthest);
        }
    }
}

/* ---- one pair ---- */

enum { PAIR_DIM = 8 };

/* One query and one key in fp32, whose products are `size`, -size and a little. */
struct pair {
    gdpa_spec spec;
    gdpa_args args;
    float q[PAIR_DIM], k[PAIR_DIM], v[PAIR_DIM], d_out[PAIR_DIM];
    double x, window, d_prob;
    double dq[PAIR_DIM], dk[PAIR_DIM];
};

static const float pair_size = 1024;

/* With a score `off` windows away from the kink, as near as fp32 has it. */
static void pair_make(struct pair *pair, const struct kink *kink, float scale, float out_scale, double off)
{
    *pair = (struct pair){.spec = GDPA_SPEC_INIT, .args = GDPA_ARGS_INIT};
    pair->spec.head_dim = PAIR_DIM, pair->spec.activation = kink->activation;
    pair->args.batch = 1, pair->args.heads_q = 1, pair->args.heads_k = 1;
    pair->args.seqlen_q = 1, pair->args.seqlen_k = 1;
    pair->args.flags = GDPA_ARGS_SCALE | GDPA_ARGS_OUT_SCALE | GDPA_ARGS_ACTIVATION_PARAM;
    pair->args.scale = scale, pair->args.out_scale = out_scale, pair->args.activation_param = kink->parameter;
    gdpa_tensor *const tensors[] = {&pair->args.q, &pair->args.k, &pair->args.v};
    float *const data[] = {pair->q, pair->k, pair->v};
    for (int i = 0; i < 3; i++) {
        tensors[i]->data = data[i], tensors[i]->dtype = GDPA_DTYPE_FP32;
    }
    double width = reference_window(PAIR_DIM, 2 * (double)pair_size * (double)pair_size);
    pair->q[0] = 1, pair->q[1] = -1;
    pair->k[1] = pair_size;
    pair->k[0] = (float)((double)pair_size + kink->at / (double)scale + off * width);
    pair->k[2] = 0.5F; /* meets a 0 in q */
    pair->v[3] = 2, pair->d_out[3] = -1.5F, pair->d_prob = -3;
    double first = (double)pair->k[0];
    pair->x = (double)scale * (first - (double)pair_size);
    pair->window =
        fabs((double)scale) * reference_window(PAIR_DIM, first * first + (double)pair_size * (double)pair_size);
}

static void pair_allow(struct pair *pair)
{
    struct reference_problem problem = {.spec = &pair->spec, .args = &pair->args, .threads = 1};
    problem.d_out = (gdpa_tensor){.data = pair->d_out, .dtype = GDPA_DTYPE_FP32};
    struct reference_gradients allowed = {pair->dq, pair->dk, NULL};
    assert_true(reference_backward(&problem, none, none, allowed, none));
}

/* What each pair is allowed where there are few of them: the half ulp of a slope of 1, and two of dS. */
static double allowed_to_few(const struct pair *pair, int32_t activation)
{
    double slope = reference_derivative(activation, pair->x, (double)pair->args.activation_param);
    double factor = fabs((double)pair->args.scale * (double)pair->args.out_scale * pair->d_prob);
    return factor * (0x1p-9 + 0x1p-8 * fabs(slope));
}

static void a_pair_near_a_kink_is_allowed_its_jump_and_one_outside_its_roundings(void **state)
{
    (void)state;
    static const double offs[] = {0, 0.8, -0.8, 1.25, -1.25, 100, -100};
    static const float scales[][2] = {{1, 1}, {0.125F, -0.5F}, {-2, 3}};
    for (size_t n = 0; n < COUNT_OF(kinks) * COUNT_OF(offs) * COUNT_OF(scales); n++) {
        const struct kink *kink = &kinks[n % COUNT_OF(kinks)];
        double off = offs[n / COUNT_OF(kinks) % COUNT_OF(offs)];
        const float *scale = scales[n / COUNT_OF(kinks) / COUNT_OF(offs)];
        struct pair pair;
        pair_make(&pair, kink, scale[0], scale[1], off);
        pair_allow(&pair);
        assert_int_equal(fabs(pair.x - kink->at) < pair.window, fabs(off) < 1);
        double jump = fabs(off) < 1 ? kink->jump * fabs((double)scale[0] * (double)scale[1] * pair.d_prob) : 0;
        double all = jump + allowed_to_few(&pair, kink->activation);
        for (int c = 0; c < PAIR_DIM; c++) {
            assert_true(fabs(pair.dq[c] - all * fabs((double)pair.k[c])) <= 1e-6 * pair.dq[c]);
            assert_true(fabs(pair.dk[c] - all * fabs((double)pair.q[c])) <= 1e-6 * pair.dk[c]);
        }
    }
}

/* Nothing is unsure where nothing is added up, nor where f' does not jump, but the roundings of the pair itself. */
static void a_score_without_a_rounding_is_allowed_no_jump(void **state)
{
    (void)state;
    struct pair pair;
    pair_make(&pair, &kinks[0], 1, 1, 0);
    memset(pair.q, 0, sizeof pair.q);
    pair_allow(&pair);
    assert_true(pair.dq[0] < 0x1p-6 * fabs(pair.d_prob * (double)pair.k[0]) && pair.dk[0] == 0);
    pair_make(&pair, &kinks[0], 0, 1, 0); /* scale 0 */
    pair.k[0] = pair_size;
    pair_allow(&pair);
    assert_true(pair.dq[0] == 0 && pair.dk[0] == 0);
    for (size_t a = 0; a < COUNT_OF(activations); a++) {
        struct kink kink = {activations[a].number, (float)activations[a].parameter, 0, 0};
        pair_make(&pair, &kink, 1, 1, 0);
        pair_allow(&pair);
        bool jumps = kink.activation == GDPA_ACTIVATION_RELU || kink.activation == GDPA_ACTIVATION_LEAKY_RELU;
        double few = allowed_to_few(&pair, kink.activation) * fabs((double)pair.k[0]);
        assert_true(few > 0);
        assert_int_equal(pair.dq[0] > 1.001 * few, jumps); /* elu has parameter 1, and hardswish its kinks elsewhere */
    }
}

/* ---- many pairs ---- */

enum { ROWS = 70, KEYS = 80, DIM = 16, KINK_ROW = 33, KINK_KEY = 47, HEADS = 2 };

/* Random numbers of bf16, but that one pair of head 1 has a score of 0 by cancellation. */
struct many {
    gdpa_spec spec;
    gdpa_args args;
    struct reference_problem problem;
    uint16_t q[ROWS * HEADS * DIM], k[KEYS * DIM], v[KEYS * DIM], d_out[ROWS * HEADS * DIM];
    double exact[2][ROWS * HEADS * DIM], eager[2][ROWS * HEADS * DIM], allowed[2][ROWS * HEADS * DIM];
    double d_prob; /* of the pair */
};

static struct many *many_make(void)
{
    struct many *many = calloc(1, sizeof *many);
    assert_non_null(many);
    many->spec = (gdpa_spec)GDPA_SPEC_INIT;
    many->args = (gdpa_args)GDPA_ARGS_INIT;
    many->spec.head_dim = DIM, many->spec.activation = GDPA_ACTIVATION_RELU;
    gdpa_args *args = &many->args;
    args->batch = 1, args->heads_q = HEADS, args->heads_k = 1, args->seqlen_q = ROWS, args->seqlen_k = KEYS;
    args->q.data = many->q, args->k.data = many->k, args->v.data = many->v;
    random_fill_normal(GDPA_DTYPE_BF16, many->q, (int64_t)COUNT_OF(many->q), 1, 1, 1);
    random_fill_normal(GDPA_DTYPE_BF16, many->k, (int64_t)COUNT_OF(many->k), 1, 2, 1);
    random_fill_normal(GDPA_DTYPE_BF16, many->v, (int64_t)COUNT_OF(many->v), 1, 3, 1);
    random_fill_normal(GDPA_DTYPE_BF16, many->d_out, (int64_t)COUNT_OF(many->d_out), 1, 4, 1);
    uint16_t *q = &many->q[(KINK_ROW * HEADS + 1) * DIM], *k = &many->k[KINK_KEY * DIM];
    for (int c = 0; c < DIM; c += 2) {
        q[c + 1] = q[c];
        k[c + 1] = (uint16_t)(k[c] ^ 0x8000);
    }
    for (int c = 0; c < DIM; c++) {
        many->d_prob +=
            bf16_to_double(many->d_out[(KINK_ROW * HEADS + 1) * DIM + c]) * bf16_to_double(many->v[KINK_KEY * DIM + c]);
    }
    many->problem = (struct reference_problem){.spec = &many->spec, .args = args, .threads = 1};
    many->problem.d_out.data = many->d_out;
    assert_true(reference_backward(&many->problem, (struct reference_gradients){many->exact[0], many->exact[1], NULL},
                                   (struct reference_gradients){many->eager[0], many->eager[1], NULL},
                                   (struct reference_gradients){many->allowed[0], many->allowed[1], NULL}, none));
    return many;
}

/* Whether dq (0) or dk (1) holds that has the pair's element `times` over, and `fault` in another element. */
static bool holds(const struct many *many, int of_keys, double times, double fault, bool allow, struct compare *compare)
{
    int rows = of_keys ? KEYS : ROWS * HEADS, row = of_keys ? KINK_KEY : KINK_ROW * HEADS + 1;
    const uint16_t *other = of_keys ? &many->q[(KINK_ROW * HEADS + 1) * DIM] : &many->k[KINK_KEY * DIM];
    compare_init(compare, GDPA_DTYPE_FP32, 3);
    for (int i = 0; i < rows * DIM; i++) {
        double flipped = i / DIM == row ? times * many->d_prob * bf16_to_double(other[i % DIM]) : 0;
        double ours = many->exact[of_keys][i] + flipped + (i == 5 * DIM ? fault : 0);
        compare_add_allowed(compare, ours, many->exact[of_keys][i], many->eager[of_keys][i],
                            (struct compare_allowance){allow ? many->allowed[of_keys][i] : 0, 0},
                            (struct compare_place){0, 0, i / DIM, i % DIM});
    }
    compare_finish(compare);
    return compare_holds(compare);
}

static void either_side_of_a_kink_is_right_and_a_wrong_result_is_not(void **state)
{
    (void)state;
    struct many *many = many_make();
    for (int of_keys = 0; of_keys < 2; of_keys++) {
        struct compare compare;
        assert_true(holds(many, of_keys, 0, 0, true, &compare));
        assert_int_equal(compare.allowed, DIM);
        assert_int_equal(compare.excused, 0);
        assert_true(holds(many, of_keys, 1, 0, true, &compare));
        assert_in_range(compare.excused, 1, DIM);
        assert_false(holds(many, of_keys, 1, 0, false, &compare)); /* as it was before there was an allowance */
        assert_false(holds(many, of_keys, 3, 0, true, &compare));  /* more than the pair is worth */
        char text[400];
        compare_explain(&compare, text, sizeof text);
        assert_non_null(strstr(text, of_keys ? "row 47" : "row 67"));
        assert_false(holds(many, of_keys, 1, 4, true, &compare)); /* wrong elsewhere */
        assert_false(holds(many, of_keys, 0, 4, true, &compare));
        assert_false(holds(many, of_keys, (double)NAN, 0, true, &compare));
        assert_false(holds(many, of_keys, (double)INFINITY, 0, true, &compare));
    }
    free(many);
}

/* ---- what was seen on an H200 ---- */

/* The elements of dq that a portable kernel had wrong, it seemed: "got -0.453, expected -1.897", and an error of 1.25. */
static void elements_that_an_h200_gave_otherwise_are_allowed(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        const char *shape;
        struct reference_block block;
        int row;
        double error;
    } seen[] = {
        {4094650556668290742U, "mqa", {2, 1, 512, 64}, 559 - 512, 1.44},
        {125543329342965206U, "seqused", {5, 0, 0, 64}, 29, 1.25},
    };
    static struct case_pool pool;
    const char *text = "bwd head_dim=128 dtype=bf16 activation=relu family=portable";
    gdpa_spec spec;
    assert_int_equal(gdpa_spec_parse(text, &spec), GDPA_OK);
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        struct verify_case made;
        char why[200];
        int number = shape_find(seen[i].shape);
        uint64_t seed = random_hash(worker_kernel_seed(seen[i].seed, text), (uint64_t)number);
        assert_true(case_make(&made, &spec, &shapes[number], seed, &pool, why, sizeof why));
        struct reference_problem problem = {.spec = &made.spec, .args = &made.args, .d_out = made.args.dout};
        static double allowed[REFERENCE_BLOCK_ROWS * 128];
        assert_true(reference_backward_blocks(&problem, false, &seen[i].block, 1, none, none,
                                              (struct reference_gradients){allowed, NULL, NULL}, none));
        double most = 0;
        for (int c = 0; c < 128; c++) {
            most = fmax(most, allowed[seen[i].row * 128 + c]);
        }
        assert_true(fabs(most - seen[i].error) < 0.006);
        case_free(&made);
    }
    case_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_jump_at_the_kinks_and_nowhere_else),
        cmocka_unit_test(sums_of_tensor_cores_are_within_the_window),
        cmocka_unit_test(a_pair_near_a_kink_is_allowed_its_jump_and_one_outside_its_roundings),
        cmocka_unit_test(a_score_without_a_rounding_is_allowed_no_jump),
        cmocka_unit_test(either_side_of_a_kink_is_right_and_a_wrong_result_is_not),
        cmocka_unit_test(elements_that_an_h200_gave_otherwise_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
