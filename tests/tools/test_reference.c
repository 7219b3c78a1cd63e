/*
 * The float64 reference against a plain loop over the formulas, and the rest of what its header promises.
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
#include "tests/support/half.h"
#include "tests/support/reference.h"
#include "tests/support/reference_fixture.h"

static const struct reference_gradients none = {NULL, NULL, NULL};

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

/* Element of a tensor by sequence, row in the sequence, head and column. */
static double element(const struct fixture *fixture, const gdpa_tensor *tensor, bool keys, int64_t dim, int64_t b,
                      int64_t row, int64_t head, int64_t c)
{
    const gdpa_args *args = &fixture->args;
    const int32_t *cu = keys ? args->cu_seqlens_k : args->cu_seqlens_q;
    int64_t heads = keys ? args->heads_k : args->heads_q;
    int64_t seqlen = keys ? args->seqlen_k : args->seqlen_q;
    bool strided = tensor->flags & GDPA_TENSOR_STRIDES;
    int64_t stride_head = strided ? tensor->stride_head : dim;
    int64_t stride_row = strided ? tensor->stride_row : heads * dim;
    int64_t stride_batch = strided ? tensor->stride_batch : seqlen * heads * dim;
    int64_t start = cu ? cu[b] * stride_row : b * stride_batch;
    return dtype_load(tensor->dtype, tensor->data, start + row * stride_row + head * stride_head + c);
}

static bool sees(const struct variant *variant, int64_t rows_q, int64_t rows_k, int64_t i, int64_t j)
{
    int64_t at = i + (variant->align == GDPA_ALIGN_TOP_LEFT ? 0 : rows_k - rows_q);
    if (variant->causal && j > at) {
        return false;
    }
    if (variant->has_left && variant->left >= 0 && j < at - variant->left) {
        return false;
    }
    if (!variant->causal && variant->has_right && variant->right >= 0 && j > at + variant->right) {
        return false;
    }
    return true;
}

/* The places of one pair of rows in the packed results. */
struct spot {
    int64_t q, k, o, v;
};

static struct spot spot_of(const struct fixture *fixture, int64_t b, int64_t i, int64_t j, int64_t h)
{
    const gdpa_args *args = &fixture->args;
    int64_t row_q = args->cu_seqlens_q ? args->cu_seqlens_q[b] + i : b * args->seqlen_q + i;
    int64_t row_k = args->cu_seqlens_k ? args->cu_seqlens_k[b] + j : b * args->seqlen_k + j;
    int64_t g = h / (args->heads_q / args->heads_k);
    int64_t q = row_q * args->heads_q + h, k = row_k * args->heads_k + g;
    return (struct spot){q * DIM, k * DIM, q * DIM_V, k * DIM_V};
}

static void plain_pair(const struct fixture *fixture, int64_t b, int64_t i, int64_t j, int64_t h,
                       struct fixture_results *results)
{
    const gdpa_args *args = &fixture->args;
    struct spot at = spot_of(fixture, b, i, j, h);
    int64_t g = h / (args->heads_q / args->heads_k);
    double scale = (double)args->scale, out_scale = (double)args->out_scale, a = (double)args->activation_param;
    double dot = 0, d_prob = 0;
    for (int c = 0; c < DIM; c++) {
        dot += element(fixture, &args->q, false, DIM, b, i, h, c) * element(fixture, &args->k, true, DIM, b, j, g, c);
    }
    double p = reference_activation(fixture->spec.activation, scale * dot, a);
    for (int c = 0; c < DIM_V; c++) {
        double v = element(fixture, &args->v, true, DIM_V, b, j, g, c);
        double d_out = element(fixture, &fixture->problem.d_out, false, DIM_V, b, i, h, c);
        results->o[at.o + c] += out_scale * p * v;
        results->dv[at.v + c] += out_scale * p * d_out;
        d_prob += d_out * v;
    }
    double d_s = out_scale * scale * reference_derivative(fixture->spec.activation, scale * dot, a) * d_prob;
    for (int c = 0; c < DIM; c++) {
        results->dq[at.q + c] += d_s * element(fixture, &args->k, true, DIM, b, j, g, c);
        results->dk[at.k + c] += d_s * element(fixture, &args->q, false, DIM, b, i, h, c);
    }
}

static void plain_compute(const struct fixture *fixture, const struct variant *variant, struct fixture_results *results)
{
    const gdpa_args *args = &fixture->args;
    for (int64_t b = 0; b < 3; b++) {
        int64_t rows_q = args->cu_seqlens_q ? fixture_lengths_q[b] : args->seqlen_q;
        int64_t rows_k = args->cu_seqlens_k ? fixture_lengths_k[b] : args->seqlen_k;
        rows_q = variant->seqused && fixture_shortened_q[b] < rows_q ? fixture_shortened_q[b] : rows_q;
        rows_k = variant->seqused && fixture_shortened_k[b] < rows_k ? fixture_shortened_k[b] : rows_k;
        for (int64_t h = 0; h < args->heads_q; h++) {
            for (int64_t i = 0; i < rows_q; i++) {
                struct spot at = spot_of(fixture, b, i, 0, h);
                memset(results->o + at.o, 0, sizeof(double) * DIM_V);
                memset(results->dq + at.q, 0, sizeof(double) * DIM);
            }
            for (int64_t j = 0; j < rows_k; j++) {
                struct spot at = spot_of(fixture, b, 0, j, h);
                if (h % (args->heads_q / args->heads_k) == 0) {
                    memset(results->dk + at.k, 0, sizeof(double) * DIM);
                    memset(results->dv + at.v, 0, sizeof(double) * DIM_V);
                }
            }
            for (int64_t i = 0; i < rows_q; i++) {
                for (int64_t j = 0; j < rows_k; j++) {
                    if (sees(variant, rows_q, rows_k, i, j)) {
                        plain_pair(fixture, b, i, j, h, results);
                    }
                }
            }
        }
    }
}

static void assert_near(const double *left, const double *right, int64_t count, const char *what, const char *where)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(left[i] - right[i]) <= 1e-12 * (1 + fabs(right[i])))) {
            fail_msg("%s of '%s', element %lld: %.17g, expected %.17g", what, where, (long long)i, left[i], right[i]);
        }
    }
}

static void every_mask_layout_and_stride_agrees_with_plain_loops(void **state)
{
    (void)state;
    for (int n = 0; n < fixture_variant_count; n++) {
        struct fixture fixture;
        fixture_make(&fixture, &fixture_variants[n], activations[n % ACTIVATION_COUNT].number, GDPA_DTYPE_FP32);
        struct reference_sizes sizes = reference_sizes_find(&fixture.problem);
        struct fixture_results expected = fixture_results_allocate(&sizes), found = fixture_results_allocate(&sizes);
        plain_compute(&fixture, &fixture_variants[n], &expected);
        assert_true(reference_forward(&fixture.problem, found.o, NULL, NULL));
        struct reference_gradients exact = {found.dq, found.dk, found.dv};
        assert_true(reference_backward(&fixture.problem, exact, none, none, none));
        assert_near(found.o, expected.o, sizes.o, "o", fixture_variants[n].name);
        assert_near(found.dq, expected.dq, sizes.dq, "dq", fixture_variants[n].name);
        assert_near(found.dk, expected.dk, sizes.dk, "dk", fixture_variants[n].name);
        assert_near(found.dv, expected.dv, sizes.dv, "dv", fixture_variants[n].name);
        fixture_results_free(&expected);
        fixture_results_free(&found);
        fixture_free(&fixture);
    }
}

/* Larger than a tile in every direction, in both floating point widths of the matrix product. */
static void problems_of_many_tiles_agree_with_plain_loops(void **state)
{
    (void)state;
    enum { ROWS = 150, KEYS = 210 };
    for (int causal = 0; causal < 2; causal++) {
        gdpa_spec spec = GDPA_SPEC_INIT;
        gdpa_args args = GDPA_ARGS_INIT;
        spec.head_dim = 40, spec.activation = GDPA_ACTIVATION_SILU, spec.causal = causal;
        args.batch = 1, args.heads_q = 1, args.heads_k = 1, args.seqlen_q = ROWS, args.seqlen_k = KEYS;
        args.q = fixture_tensor(GDPA_DTYPE_BF16, 1, ROWS, 1, 40, false, 1);
        args.k = fixture_tensor(GDPA_DTYPE_BF16, 1, KEYS, 1, 40, false, 2);
        args.v = fixture_tensor(GDPA_DTYPE_BF16, 1, KEYS, 1, 40, false, 3);
        struct reference_problem problem = {.spec = &spec, .args = &args};
        double *o = fixture_allocate(sizeof(double) * ROWS * 40);
        assert_true(reference_forward(&problem, o, NULL, NULL));
        for (int64_t i = 0; i < ROWS; i++) {
            double expected[40] = {0};
            for (int64_t j = 0; j < KEYS && (!causal || j <= i + KEYS - ROWS); j++) {
                double dot = 0;
                for (int c = 0; c < 40; c++) {
                    dot += dtype_load(args.q.dtype, args.q.data, i * 40 + c) *
                           dtype_load(args.k.dtype, args.k.data, j * 40 + c);
                }
                for (int c = 0; c < 40; c++) {
                    expected[c] += dot / (1 + exp(-dot)) * dtype_load(args.v.dtype, args.v.data, j * 40 + c);
                }
            }
            for (int c = 0; c < 40; c++) {
                assert_true(fabs(o[i * 40 + c] - expected[c]) < 1e-11 * (1 + fabs(expected[c])));
            }
        }
        free(o);
        free(args.q.data);
        free(args.k.data);
        free(args.v.data);
    }
}

static void a_row_without_keys_is_plus_zero(void **state)
{
    (void)state;
    struct variant variant = {.name = "causal", .causal = 1, .heads_q = 1, .heads_k = 1};
    struct fixture fixture;
    fixture_make(&fixture, &variant, GDPA_ACTIVATION_SIGMOID, GDPA_DTYPE_BF16);
    fixture.args.seqlen_k = 2; /* 5 queries: the first three see nothing */
    struct reference_sizes sizes = reference_sizes_find(&fixture.problem);
    struct fixture_results exact = fixture_results_allocate(&sizes), eager = fixture_results_allocate(&sizes);
    assert_true(reference_forward(&fixture.problem, exact.o, eager.o, NULL));
    struct reference_gradients gradients = {exact.dq, exact.dk, exact.dv}, rounded = {eager.dq, eager.dk, eager.dv};
    assert_true(reference_backward(&fixture.problem, gradients, rounded, none, none));
    for (int c = 0; c < 3 * DIM_V; c++) {
        assert_true(exact.o[c] == 0 && !signbit(exact.o[c]) && eager.o[c] == 0 && !signbit(eager.o[c]));
    }
    for (int c = 0; c < 3 * DIM; c++) {
        assert_true(exact.dq[c] == 0 && !signbit(exact.dq[c]) && eager.dq[c] == 0 && !signbit(eager.dq[c]));
    }
    assert_true(exact.o[(size_t)3 * DIM_V] != 0 && exact.dq[(size_t)3 * DIM] != 0);
    fixture_results_free(&exact);
    fixture_results_free(&eager);
    fixture_free(&fixture);
}

static void eager_rounds_scores_and_probabilities(void **state)
{
    (void)state;
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_args args = GDPA_ARGS_INIT;
    uint16_t q[8] = {0}, k[8] = {0}, v[8] = {0};
    spec.head_dim = 8, spec.activation = GDPA_ACTIVATION_SQUARE, spec.out_dtype = GDPA_DTYPE_FP32;
    args.batch = 1, args.heads_q = 1, args.heads_k = 1, args.seqlen_q = 1, args.seqlen_k = 1;
    q[0] = q[1] = k[0] = bf16_from_double(1);
    k[1] = bf16_from_double(0x1p-9); /* S = 1 + 2^-9: bf16 keeps 1 */
    v[0] = bf16_from_double(3);
    args.q.data = q, args.k.data = k, args.v.data = v;
    struct reference_problem problem = {.spec = &spec, .args = &args, .threads = 1};
    double exact[8], eager[8];
    assert_true(reference_forward(&problem, exact, eager, NULL));
    assert_true(exact[0] == 3 * (1 + 0x1p-9) * (1 + 0x1p-9));
    assert_true(eager[0] == 3);
    k[1] = bf16_from_double(0x1p-7); /* S = 1 + 2^-7 fits; its square, 1 + 2^-6 + 2^-14, does not */
    assert_true(reference_forward(&problem, exact, eager, NULL));
    assert_true(exact[0] == 3 * (1 + 0x1p-7) * (1 + 0x1p-7));
    assert_true(eager[0] == 3 * (1 + 0x1p-6));
    spec.out_dtype = GDPA_DTYPE_DEFAULT; /* 3 + 3 * 2^-6 = 3.046875 fits bf16 */
    v[0] = bf16_from_double(1 + 0x1p-7); /* (1 + 2^-6)(1 + 2^-7) does not */
    assert_true(reference_forward(&problem, exact, eager, NULL));
    assert_true(eager[0] == dtype_round(GDPA_DTYPE_BF16, (1 + 0x1p-6) * (1 + 0x1p-7)));
}

/* scale times f'(S) dP, not f'(S) dP alone: a small factor takes it to where fp16 has few bits, a large one is no reason to overflow. */
static void eager_rounds_the_gradient_of_scores_with_its_factors(void **state)
{
    (void)state;
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_args args = GDPA_ARGS_INIT;
    uint16_t q[8] = {0}, k[8] = {0}, v[8] = {0}, d_out[8] = {0};
    spec.head_dim = 8, spec.activation = GDPA_ACTIVATION_IDENTITY, spec.dtype = GDPA_DTYPE_FP16;
    spec.out_dtype = GDPA_DTYPE_FP32;
    args.batch = 1, args.heads_q = 1, args.heads_k = 1, args.seqlen_q = 1, args.seqlen_k = 1;
    args.flags = GDPA_ARGS_SCALE;
    k[0] = fp16_from_double(1), v[0] = fp16_from_double(3), d_out[0] = fp16_from_double(0.25); /* dP is 3/4 */
    args.q.data = q, args.k.data = k, args.v.data = v;
    struct reference_problem problem = {.spec = &spec, .args = &args, .threads = 1};
    problem.d_out.data = d_out;
    static const float scales[] = {0x1p-24F, -0x1p-24F, 0x1p-10F, 0x1p20F, 0};
    static const double expected[] = {0x1p-24, -0x1p-24, 0.75 * 0x1p-10, 0.75 * 0x1p20, 0};
    for (int i = 0; i < 5; i++) {
        double dq[8], eager[8];
        args.scale = scales[i];
        assert_true(reference_backward(
            &problem, (struct reference_gradients){dq, NULL, NULL}, (struct reference_gradients){eager, NULL, NULL},
            (struct reference_gradients){NULL, NULL, NULL}, (struct reference_gradients){NULL, NULL, NULL}));
        assert_true(dq[0] == 0.75 * (double)scales[i]);
        assert_true(eager[0] == expected[i]);
    }
}

static void eager_results_are_near_the_exact_ones_and_not_the_same(void **state)
{
    (void)state;
    for (int a = 0; a < ACTIVATION_COUNT; a++) {
        struct fixture fixture;
        fixture_make(&fixture, &fixture_variants[1], activations[a].number, GDPA_DTYPE_FP16);
        fixture.spec.dtype = GDPA_DTYPE_FP16;
        struct reference_sizes sizes = reference_sizes_find(&fixture.problem);
        struct fixture_results exact = fixture_results_allocate(&sizes), eager = fixture_results_allocate(&sizes);
        assert_true(reference_forward(&fixture.problem, exact.o, eager.o, NULL));
        struct reference_gradients gradients = {exact.dq, exact.dk, exact.dv}, rounded = {eager.dq, eager.dk, eager.dv};
        assert_true(reference_backward(&fixture.problem, gradients, rounded, none, none));
        const double *pairs[4][2] = {
            {exact.o, eager.o}, {exact.dq, eager.dq}, {exact.dk, eager.dk}, {exact.dv, eager.dv}};
        const int64_t counts[4] = {sizes.o, sizes.dq, sizes.dk, sizes.dv};
        for (int p = 0; p < 4; p++) {
            double worst = 0, largest = 0;
            for (int64_t i = 0; i < counts[p]; i++) {
                worst = fmax(worst, fabs(pairs[p][0][i] - pairs[p][1][i]));
                largest = fmax(largest, fabs(pairs[p][0][i]));
            }
            assert_true(worst > 0 && worst < 0.05 * (1 + largest));
        }
        fixture_results_free(&exact);
        fixture_results_free(&eager);
        fixture_free(&fixture);
    }
}

static void blocks_give_what_the_whole_gives(void **state)
{
    (void)state;
    struct variant variant = fixture_variants[11];
    struct fixture fixture;
    fixture_make(&fixture, &variant, GDPA_ACTIVATION_FAST_GELU, GDPA_DTYPE_BF16);
    struct reference_sizes sizes = reference_sizes_find(&fixture.problem);
    struct fixture_results exact = fixture_results_allocate(&sizes), eager = fixture_results_allocate(&sizes);
    assert_true(reference_forward(&fixture.problem, exact.o, eager.o, NULL));
    struct reference_block *blocks;
    int64_t count;
    assert_true(reference_blocks_list(&fixture.problem, &blocks, &count));
    assert_int_equal(count, 2 * 4);
    size_t elements = (size_t)count * REFERENCE_BLOCK_ROWS * DIM_V;
    double *some = fixture_allocate(sizeof(double) * elements),
           *some_eager = fixture_allocate(sizeof(double) * elements);
    assert_true(reference_forward_blocks(&fixture.problem, blocks, count, some, some_eager, NULL));
    for (int64_t n = 0; n < count; n++) {
        struct reference_sequence sequence = reference_sequence_find(&fixture.problem, blocks[n].sequence);
        for (int64_t r = 0; r < blocks[n].rows; r++) {
            int64_t row = sequence.first_q + blocks[n].first_row + r;
            int64_t whole = (row * fixture.args.heads_q + blocks[n].head) * DIM_V;
            int64_t part = (n * REFERENCE_BLOCK_ROWS + r) * DIM_V;
            assert_memory_equal(some + part, exact.o + whole, sizeof(double) * DIM_V);
            assert_memory_equal(some_eager + part, eager.o + whole, sizeof(double) * DIM_V);
        }
    }
    free(blocks);
    free(some);
    free(some_eager);
    fixture_results_free(&exact);
    fixture_results_free(&eager);
    fixture_free(&fixture);
}

static void visible_pairs_are_counted_exactly(void **state)
{
    (void)state;
    for (int n = 0; n < fixture_variant_count; n++) {
        struct fixture fixture;
        fixture_make(&fixture, &fixture_variants[n], GDPA_ACTIVATION_RELU, GDPA_DTYPE_BF16);
        int64_t pairs = 0;
        for (int64_t b = 0; b < 3; b++) {
            struct reference_sequence sequence = reference_sequence_find(&fixture.problem, b);
            for (int64_t i = 0; i < sequence.rows_q; i++) {
                for (int64_t j = 0; j < sequence.rows_k; j++) {
                    pairs += sees(&fixture_variants[n], sequence.rows_q, sequence.rows_k, i, j);
                }
            }
        }
        assert_int_equal(reference_visible_pairs(&fixture.problem), pairs * fixture.args.heads_q);
        fixture_free(&fixture);
    }
}

static void offsets_are_clamped_to_the_tensors(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make(&fixture, &fixture_variants[10], GDPA_ACTIVATION_RELU, GDPA_DTYPE_BF16);
    fixture.cu_q[1] = -5, fixture.cu_q[2] = 1000;
    struct reference_sequence first = reference_sequence_find(&fixture.problem, 0);
    struct reference_sequence second = reference_sequence_find(&fixture.problem, 1);
    struct reference_sequence third = reference_sequence_find(&fixture.problem, 2);
    assert_int_equal(first.first_q, 1);
    assert_int_equal(first.rows_q, 0);
    assert_int_equal(second.first_q, 0);
    assert_int_equal(second.rows_q, fixture.args.total_q);
    assert_int_equal(third.rows_q, 0);
    fixture_free(&fixture);
}

static void empty_problems_are_done_at_once(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make(&fixture, &fixture_variants[10], GDPA_ACTIVATION_RELU, GDPA_DTYPE_BF16);
    fixture.args.batch = 0;
    double nothing = 7;
    assert_true(reference_forward(&fixture.problem, &nothing, &nothing, NULL));
    assert_true(reference_backward(&fixture.problem, (struct reference_gradients){&nothing, &nothing, &nothing}, none,
                                   none, none));
    assert_true(nothing == 7);
    fixture_free(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mask_layout_and_stride_agrees_with_plain_loops),
        cmocka_unit_test(problems_of_many_tiles_agree_with_plain_loops),
        cmocka_unit_test(a_row_without_keys_is_plus_zero),
        cmocka_unit_test(eager_rounds_scores_and_probabilities),
        cmocka_unit_test(eager_rounds_the_gradient_of_scores_with_its_factors),
        cmocka_unit_test(eager_results_are_near_the_exact_ones_and_not_the_same),
        cmocka_unit_test(blocks_give_what_the_whole_gives),
        cmocka_unit_test(visible_pairs_are_counted_exactly),
        cmocka_unit_test(offsets_are_clamped_to_the_tensors),
        cmocka_unit_test(empty_problems_are_done_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
