/*
 * What tiles of the reference are made of: rows of tensors in double, and the one matrix product. See reference_internal.h.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/support/half.h"
#include "tests/support/reference_internal.h"

/* Four vectors are one register each with AVX, two each without. */
typedef double vector4 __attribute__((vector_size(32), aligned(8), may_alias));

/* Four rows of eight columns, in eight accumulators that stay in registers. */
static inline __attribute__((always_inline)) void accumulate_4_by_8(int k, const double *a, const double *b, int ldb,
                                                                    double *c, int ldc)
{
    vector4 *at[4][2];
    for (int r = 0; r < 4; r++) {
        at[r][0] = (vector4 *)(c + (size_t)r * (size_t)ldc);
        at[r][1] = at[r][0] + 1;
    }
    vector4 s00 = *at[0][0], s01 = *at[0][1], s10 = *at[1][0], s11 = *at[1][1];
    vector4 s20 = *at[2][0], s21 = *at[2][1], s30 = *at[3][0], s31 = *at[3][1];
    for (int l = 0; l < k; l++) {
        vector4 low = *(const vector4 *)b;
        vector4 high = *(const vector4 *)(b + 4);
        s00 += a[0] * low, s01 += a[0] * high;
        s10 += a[1] * low, s11 += a[1] * high;
        s20 += a[2] * low, s21 += a[2] * high;
        s30 += a[3] * low, s31 += a[3] * high;
        a += REFERENCE_BLOCK_ROWS;
        b += ldb;
    }
    *at[0][0] = s00, *at[0][1] = s01, *at[1][0] = s10, *at[1][1] = s11;
    *at[2][0] = s20, *at[2][1] = s21, *at[3][0] = s30, *at[3][1] = s31;
}

static inline __attribute__((always_inline)) void accumulate_body(int m, int n, int k, const double *a, const double *b,
                                                                  int ldb, double *c, int ldc)
{
    for (int i = 0; i < m; i += 4) {
        for (int j = 0; j < n; j += 8) {
            accumulate_4_by_8(k, a + i, b + j, ldb, c + (size_t)i * (size_t)ldc + j, ldc);
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void accumulate_avx2(int m, int n, int k, const double *a, const double *b,
                                                                int ldb, double *c, int ldc)
{
    accumulate_body(m, n, k, a, b, ldb, c, ldc);
}
#endif

void accumulate(int m, int n, int k, const double *a, const double *b, int ldb, double *c, int ldc)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        accumulate_avx2(m, n, k, a, b, ldb, c, ldc);
        return;
    }
#endif
    accumulate_body(m, n, k, a, b, ldb, c, ldc);
}

void side_load(const struct view *view, int64_t sequence, int64_t first, int64_t row, int count, int64_t head, int dim,
               int padded, struct side *side)
{
    int64_t base = head * view->stride_head + (view->jagged ? first * view->stride_row : sequence * view->stride_batch);
    memset(side->rows, 0, sizeof(double) * REFERENCE_BLOCK_ROWS * (size_t)padded);
    for (int r = 0; r < count; r++) {
        int64_t at = base + (row + r) * view->stride_row;
        double squares = 0;
        for (int c = 0; c < dim; c++) {
            double element = dtype_load(view->dtype, view->data, at + c);
            side->rows[r * padded + c] = element;
            squares += element * element;
        }
        side->norms[r] = sqrt(squares);
    }
    for (int c = 0; c < padded; c++) {
        for (int r = 0; r < REFERENCE_BLOCK_ROWS; r++) {
            side->transposed[c * REFERENCE_BLOCK_ROWS + r] = side->rows[r * padded + c];
        }
    }
}

bool reference_has_few_pairs(const struct reference_sequence *sequence)
{
    return sequence->rows_q * sequence->rows_k <= 16;
}

double reference_few_pairs_doubt(const struct problem *problem, double d_prob, double d_s)
{
    const double half_ulp = problem->dtype == GDPA_DTYPE_FP16 ? 0x1p-11 : 0x1p-8; /* of numbers from 1 to 2 */
    return half_ulp / 2 * fabs(problem->out_scale * d_prob) + half_ulp * fabs(d_s);
}
